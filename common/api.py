"""What every REST view shares: the actor, pages of results, and errors as {code, message, hint, fields}."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django_filters import rest_framework as filters
from rest_framework import exceptions, serializers
from rest_framework.pagination import PageNumberPagination
from rest_framework.response import Response
from rest_framework.views import set_rollback

from common.actors import ANONYMOUS, Actor, ActorKind, Via
from common.database import LOST, refusal_of
from common.errors import BerthError, InvalidInput, NotAuthenticated, NotFound, PermissionDenied, TooLarge
from common.slots import format_bytes
from common.texts import check_text, check_unicode, normalised, quoted, shown, unknown_field

log = structlog.get_logger(__name__)

DEFAULT_TEXT_LENGTH = 255
HINTS = {
    405: gettext_noop("The API reference lists what this address takes."),
    406: gettext_noop("Answers are application/json; leave “Accept” out."),
    415: gettext_noop("Send the body as “Content-Type: application/json”."),
}


def asked_once(request: Any, name: str, usual: str = "") -> str:
    """Return the value of `name` in the query string, normalised; `usual` if nothing. Raises InvalidInput if it says it twice."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        sentence = _("“{name}” is there {count} times. Say which one you mean.").format(
            name=name, count=len(values)
        )
        raise InvalidInput(sentence, fields={name: [sentence]})
    return normalised(str(values[0])) if values else usual


def asked_value(request: Any, name: str) -> str | None:
    """The same of what no empty text can be; None if it says nothing. Raises InvalidInput for an empty one too."""
    if name not in request.query_params:
        return None
    if asked := asked_once(request, name):
        return asked
    sentence = _("“{name}” is empty. Give a value, or leave it out.").format(name=name)
    raise InvalidInput(sentence, fields={name: [sentence]})


class FilterBackend(filters.DjangoFilterBackend):
    """Refuses what django-filter would let pass: a filter that is there twice, of which it would take the last, and one without
    a value, or a switch that is neither on nor off, which it would leave out, so that all is listed. Every text has the
    empty one in it: that lists all by right. What is asked for is normalised, as what is kept is."""

    def get_filterset_kwargs(self, request: Any, queryset: Any, view: Any) -> Any:
        asked = request.query_params.copy()
        for name, values in list(asked.lists()):
            asked.setlist(name, [normalised(value) for value in values])
        return {**super().get_filterset_kwargs(request, queryset, view), "data": asked}

    def get_filterset(self, request: Any, queryset: Any, view: Any) -> Any:
        filterset = super().get_filterset(request, queryset, view)
        for name, each in filterset.filters.items() if filterset else ():
            _check_filter(request, name, each)
        return filterset


def _check_filter(request: Any, name: str, kind: filters.Filter) -> None:
    """Raises InvalidInput for what the backend refuses."""
    match kind:
        case filters.MultipleChoiceFilter():
            pass  # as often as one likes, and no choice is empty
        case filters.BooleanFilter():
            is_wanted(request, name)
        case filters.CharFilter():
            asked_once(request, name)
        case _:
            asked_value(request, name)


USUAL_SIZE, MOST_A_PAGE = 50, 200


class SizedPages:
    """For paginations: ?page_size=100, 50 if nothing is said, at most 200; what is no size is refused."""

    page_size: int | None = USUAL_SIZE
    page_size_query_param: str | None = "page_size"
    max_page_size: int | None = MOST_A_PAGE

    def get_page_size(self, request: Any) -> int:
        name = "page_size"
        asked = asked_once(request, name, usual=str(USUAL_SIZE))
        if not asked.isascii() or not asked.isdecimal() or not asked.strip("0"):
            sentence = _("{value} is no size of a page. Give a number from 1 to {most}.").format(
                value=quoted(asked), most=MOST_A_PAGE
            )
            raise InvalidInput(sentence, fields={name: [sentence]})
        is_huge = len(asked) > len(str(MOST_A_PAGE))
        return MOST_A_PAGE if is_huge else min(int(asked), MOST_A_PAGE)


class StandardPagination(SizedPages, PageNumberPagination):
    """?page=2&page_size=100; at most 200 a page."""

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            asked = asked_once(request, self.page_query_param)
            if (
                not asked and self.page_query_param in request.query_params
            ):  # Django would take it for the first
                raise exceptions.NotFound
            return super().paginate_queryset(queryset, request, view)
        except exceptions.NotFound as error:
            raise NotFound(
                _("There is no page {page} in this list.").format(page=quoted(asked)),
                hint=_("Pages are numbered from 1."),
            ) from error


class InputSerializer(serializers.Serializer[Any]):
    """Base of request bodies: a field that nobody knows is refused, so that a slip in its name is seen."""

    default_error_messages = {"invalid": gettext_lazy("Give an object of fields.")}  # noqa: RUF012  the form that DRF wants

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [name for name in list(data)[:100] if name not in self.fields]
            if unknown:
                raise serializers.ValidationError(
                    {shown(name): [unknown_field(name, self.fields)] for name in unknown}
                )
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """Text that can be stored, shown and logged. `check`, where given, takes its place: a function of the room, which
    raises ValueError with the sentence that pages show too."""

    default_error_messages = {  # noqa: RUF012
        "required": gettext_lazy("Say something here."),
        "null": gettext_lazy("Give text, not null."),
        "blank": gettext_lazy("Say something here."),
    }

    def __init__(
        self, *, max_length: int | None = None, check: Callable[[str], str] | None = None, **options: Any
    ) -> None:
        super().__init__(trim_whitespace=False, max_length=max_length, **options)
        self._check = check or partial(check_text, max_length=max_length or DEFAULT_TEXT_LENGTH)

    def to_internal_value(self, data: Any) -> str:
        try:
            return self._check(check_unicode(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


def is_wanted(request: Any, name: str) -> bool:
    """A switch in the query string: 1 or true, 0 or false; absent is off. Raises InvalidInput."""
    if name not in request.query_params:
        return False
    given = asked_once(request, name).lower()
    if given not in {"0", "1", "false", "true"}:
        sentence = _("{value} is neither true nor false.").format(value=quoted(given))
        raise InvalidInput(sentence, fields={name: [sentence]})
    return given in {"1", "true"}


class ErrorOut(serializers.Serializer[Any]):
    """The body of every refusal."""

    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)
    fields = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))  # type: ignore[assignment]


class LimitOut(serializers.Serializer[Any]):
    """A limit and how far it is used, in base units: cpu in millicores, devices in thousandths, bytes, seconds."""

    limit = serializers.CharField(help_text="Like sessions, lifetime_s or, of one slot, slots.cpu.")
    level = serializers.CharField(help_text="Where it stands: domain, project, user or keypair.")
    scope = serializers.CharField(help_text="Name of that domain or project, e-mail, or name of the token.")
    policy = serializers.CharField(help_text="The resource policy that says so.")
    value = serializers.IntegerField(help_text="The most; of what begins with min_, the least.")
    used = serializers.IntegerField()
    left = serializers.IntegerField(help_text="0 of what begins with min_: nothing of it is used up.")
    is_joint = serializers.BooleanField(
        help_text="Of what begins with min_: to reach another one of the same policy is enough, of what a session holds."
    )


class LimitHitOut(LimitOut):
    asked = serializers.IntegerField(help_text="What the request needs of it.")
    message = serializers.CharField(help_text="The sentence about this one.")


class AllowListOut(serializers.Serializer[Any]):
    """A list of what is allowed; an empty one allows nothing."""

    list = serializers.CharField(help_text="registries, images or storage_hosts.")
    level = serializers.CharField(help_text="Where it stands: domain, project, user or keypair.")
    scope = serializers.CharField(help_text="Name of that domain or project, e-mail, or name of the token.")
    policy = serializers.CharField(help_text="The resource policy that says so.")
    entries = serializers.ListField(child=serializers.CharField())


class AllowListHitOut(AllowListOut):
    asked = serializers.CharField(help_text="What is not in it.")
    message = serializers.CharField(help_text="The sentence about this one.")


class LimitErrorOut(ErrorOut):
    """A refusal for limits names all that are hit."""

    limits = LimitHitOut(many=True, required=False)
    allow_lists = AllowListHitOut(many=True, required=False)
    budgets = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="A sentence for each that is used up."
    )


def actor_of(request: Any) -> Actor:
    """Who acts in this request (of Django or of DRF), from where; ANONYMOUS with an address if nobody is signed in."""
    user = request.user
    django_request: HttpRequest = getattr(request, "_request", request)
    keypair = getattr(request, "auth", None)
    user_agent = django_request.headers.get("User-Agent", "")
    actor = replace(
        ANONYMOUS,
        ip=django_request.META.get("REMOTE_ADDR", ""),
        request_id=getattr(django_request, "request_id", ""),
        via=_way_of(django_request, user_agent, is_program=keypair is not None),
        user_agent=user_agent,
    )
    if not user.is_authenticated:
        return actor
    return replace(
        actor,
        kind=ActorKind.TOKEN if keypair is not None else ActorKind.USER,
        user_id=user.pk,
        label=user.email,
        domain_id=user.domain_id,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
        keypair_id=keypair.pk if keypair is not None else None,
        **_viewer_of(django_request, is_program=keypair is not None),
    )


def _viewer_of(request: HttpRequest, *, is_program: bool) -> dict[str, Any]:
    """Who really acts, where somebody looks at the portal as `request.user` (accounts.web.viewing)."""
    viewer = getattr(request, "viewer", None)
    return {} if viewer is None or is_program else {"behind_id": viewer.pk, "behind_label": viewer.email}


def _way_of(request: HttpRequest, user_agent: str, *, is_program: bool) -> Via:
    """What pages ask REST for with their cookie is done by a page."""
    if is_program or "Authorization" in request.headers:
        return Via.COMMAND if user_agent.startswith("berth/") else Via.REST
    return Via.PAGE


def _flat(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """DRF's nested validation detail as {"resources.cpu": ["…"]}."""
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
    """In the reader's language; the empty sentence has none."""
    return _(HINTS[status]) if status in HINTS else ""


def _as_berth_error(error: Exception) -> BerthError | None:
    if isinstance(error, BerthError):
        return error
    if isinstance(error, LOST):
        refusal = refusal_of(error)
        log.warning("database.refused", code=refusal.code, error=str(error))
        return refusal
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
    return None


def render_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every refusal has the same body; unknown errors stay errors (500, logged)."""
    refusal = _as_berth_error(error)
    if refusal is None:
        return None
    set_rollback()
    if request := context.get("request"):
        request._request.refusal = refusal  # common.refusals records it
    response = Response(
        refusal.to_json(),
        status=refusal.http_status,
        headers=refusal.headers(),
        content_type="application/json",
    )
    if refusal.http_status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="berth"'
    return response
