"""Response fields and token scopes of shared templates and presets."""

from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request

from accounts.credentials.keypairs import require_scopes
from accounts.models import KeyPair
from common.rest.actor import actor_of
from common.token_scopes import FOR_ADMIN
from sessions_app.core.template_rules import Sharing
from sessions_app.session_templates.sharing import write_checker

SHARINGS = [(each.value, each.value) for each in Sharing]


class SharedOut(serializers.ModelSerializer[Any]):
    # Needs `request` in the context. No docstring: it would describe the subclasses in the document.
    sharing = serializers.ChoiceField(choices=SHARINGS)
    project = serializers.CharField(
        source="project.name",
        default=None,
        allow_null=True,
        help_text="Name of the project that shares it; null: none.",
    )
    domain = serializers.CharField(source="domain.name", default=None, allow_null=True)
    changed_by = serializers.CharField(help_text="User who changed it last; empty if you may not change it.")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        context = cast("dict[str, Any]", self.context)  # shared by all rows of one response
        if "may_change" not in context:
            context["may_change"] = write_checker(actor_of(context["request"]))
        body = super().to_representation(instance)
        return body if context["may_change"](instance) else body | {"changed_by": ""}


def require_sharing_scope(request: Request, sharing: str) -> None:
    """Require the scope `admin` of a token that writes shared rows: otherwise a stolen token that
    may start sessions could inject commands into the sessions of others. Raises PermissionDenied.
    """
    if isinstance(request.auth, KeyPair) and sharing != Sharing.OWN:
        require_scopes(request.auth, FOR_ADMIN)
