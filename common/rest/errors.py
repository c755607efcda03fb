"""Renders errors of REST as {code, message, hint, fields}."""

from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import set_rollback

from common.db.connection import connection_error, connection_refusal
from common.errors import BerthError, InvalidInput, NotAuthenticated, NotFound, PermissionDenied, TooLarge
from common.values.resources import format_bytes

log = structlog.get_logger(__name__)

HINTS = {
    405: gettext_noop("The API reference lists what this address takes."),
    406: gettext_noop("Answers are application/json; leave “Accept” out."),
    415: gettext_noop("Send the body as “Content-Type: application/json”."),
}


class ErrorOut(serializers.Serializer[Any]):
    """Body of every error response."""

    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    fields = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))  # type: ignore[assignment]


class LimitOut(serializers.Serializer[Any]):
    """A limit and its use, in base units: cpu in millicores, devices in thousandths, bytes, seconds."""

    limit = serializers.CharField(
        help_text="Name of the limit, e.g. sessions, lifetime_s, or slots.cpu for one slot."
    )
    level = serializers.CharField(
        help_text="Level to which the policy is assigned: domain, project, user or keypair."
    )
    scope = serializers.CharField(
        help_text="Name of the domain, project or token, or e-mail address of the user."
    )
    policy = serializers.CharField(help_text="Name of the resource policy.")
    value = serializers.IntegerField(help_text="Maximum; for limits named min_…, the minimum.")
    used = serializers.IntegerField()
    left = serializers.IntegerField(help_text="Unused rest of the limit; 0 for limits named min_….")
    is_joint = serializers.BooleanField(
        help_text="true for a limit named min_… if reaching another minimum of the same policy suffices."
    )


class LimitHitOut(LimitOut):
    asked = serializers.IntegerField(help_text="Amount that the request needs.")
    message = serializers.CharField(help_text="Message about this entry.")


class AllowListOut(serializers.Serializer[Any]):
    """A list of allowed values; an empty list allows nothing."""

    list = serializers.CharField(help_text="Kind of the list: registries, images or storage_hosts.")
    level = serializers.CharField(
        help_text="Level to which the policy is assigned: domain, project, user or keypair."
    )
    scope = serializers.CharField(
        help_text="Name of the domain, project or token, or e-mail address of the user."
    )
    policy = serializers.CharField(help_text="Name of the resource policy.")
    entries = serializers.ListField(child=serializers.CharField())


class AllowListHitOut(AllowListOut):
    asked = serializers.CharField(help_text="Requested value that is not in the list.")
    message = serializers.CharField(help_text="Message about this entry.")


class LimitErrorOut(ErrorOut):
    """Error response if limits are exceeded; lists all of them."""

    limits = LimitHitOut(many=True, required=False)
    allow_lists = AllowListHitOut(many=True, required=False)
    budgets = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="A message for each budget that is used up."
    )


def _flat(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """Return DRF's nested validation detail as {"resources.cpu": ["…"]}."""
    if isinstance(detail, dict):
        fields: dict[str, list[str]] = {}
        for key, value in detail.items():
            fields.update(_flat(value, f"{prefix}.{key}" if prefix else str(key)))
        return fields
    if isinstance(detail, list) and any(isinstance(item, (dict, list)) for item in detail):
        fields = {}
        for index, item in enumerate(detail):
            fields.update(_flat(item, f"{prefix}[{index}]"))
        return fields
    return (
        {prefix: [str(item) for item in detail] if isinstance(detail, list) else [str(detail)]}
        if detail
        else {}
    )


def _hint(status: int) -> str:
    """Return the hint for the status in the reader's language; "" if there is none."""
    return _(HINTS[status]) if status in HINTS else ""


def as_refusal(error: Exception) -> BerthError | None:
    """Return the refusal that tells users of `error`; None for an error of the portal itself."""
    if isinstance(error, BerthError):
        return error
    if isinstance(error, Http404):
        return NotFound(_("There is nothing at this address, or it is not yours to see."))
    if isinstance(error, DjangoPermissionDenied):
        return PermissionDenied(_("You may not do this."))
    if isinstance(error, RequestDataTooBig):
        limit = format_bytes(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return TooLarge(
            _("The body is larger than {limit}.").format(limit=limit),
            hint=_("Only files of folders may be larger."),
        )
    if isinstance(error, exceptions.ValidationError):
        fields = _flat(error.detail)
        first = next(iter(fields.items()), ("", [_("The request cannot be understood.")]))
        return InvalidInput(f"{first[0]}: {first[1][0]}" if first[0] else first[1][0], fields=fields)
    if isinstance(error, (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)):
        return NotAuthenticated(
            str(error.detail), hint=_("Send “Authorization: Bearer <token>”, or sign in.")
        )
    if isinstance(error, exceptions.ParseError):
        return InvalidInput(str(error.detail), hint=_("Send one JSON object as UTF-8."))
    if isinstance(error, exceptions.APIException):
        plain = BerthError(str(error.detail), code=str(error.default_code), hint=_hint(error.status_code))
        plain.http_status = error.status_code  # type: ignore[misc]
        return plain
    if lost := connection_error(error):
        refusal = connection_refusal(lost)
        log.warning("database.refused", code=refusal.code, error=str(error))
        return refusal
    return None


def render_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Handle an exception for DRF; unknown errors stay errors (500, logged)."""
    refusal = as_refusal(error)
    if refusal is None:
        return None
    set_rollback()
    if request := context.get("request"):
        request._request.refusal = refusal  # common.audit.denied_requests records it
    response = Response(
        refusal.to_json(),
        status=refusal.http_status,
        headers=refusal.headers(),
        content_type="application/json",
    )
    if refusal.http_status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="berth"'
    return response
