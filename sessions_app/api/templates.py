"""REST endpoints of session templates."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_SESSIONS
from sessions_app.api.serializers import SessionDetailOut
from sessions_app.api.sharing import SHARINGS, SharedOut, require_sharing_scope
from sessions_app.core.queue_options import MAX_SESSION_NAME
from sessions_app.core.request import MAX_REFERENCE_LENGTH
from sessions_app.core.template_rules import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, Sharing
from sessions_app.models import ComputeSession, SessionTemplate
from sessions_app.session_templates import templates

BODY_HELP = "Body of POST /api/v1/sessions/, without name, start_at, dependencies and callback_url."


class TemplateOut(SharedOut):
    body = serializers.DictField(help_text=BODY_HELP)

    class Meta:
        model = SessionTemplate
        fields = (
            "id", "name", "description", "sharing", "project", "domain", "body", "changed_by", "changed_at",
        )  # fmt: skip

    def to_representation(self, instance: SessionTemplate) -> dict[str, Any]:
        body = templates.visible_body(actor_of(self.context["request"]), instance)
        return super().to_representation(instance) | {"body": body}


class TemplateSavedOut(TemplateOut):
    left_out = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names of variables that look like secrets and are not stored in templates.",
    )

    class Meta(TemplateOut.Meta):
        fields = (*TemplateOut.Meta.fields, "left_out")  # type: ignore[assignment]


class TemplateInput(InputSerializer):
    name = TextField(max_length=MAX_NAME_LENGTH)
    description = TextField(max_length=MAX_DESCRIPTION_LENGTH, required=False, allow_blank=True)
    sharing = serializers.ChoiceField(choices=SHARINGS, default=Sharing.OWN.value)
    place = TextField(
        max_length=MAX_REFERENCE_LENGTH,
        required=False,
        allow_blank=True,
        help_text="Name of the project (domain/project if several domains have one of that name) or "
        "domain; default: the project of the body, or your own domain.",
    )
    body = serializers.DictField(help_text=BODY_HELP)


class TemplateChangeInput(InputSerializer):
    name = TextField(max_length=MAX_NAME_LENGTH, required=False)
    description = TextField(max_length=MAX_DESCRIPTION_LENGTH, required=False, allow_blank=True)
    body = serializers.DictField(required=False, help_text=BODY_HELP)


class TemplateStartInput(InputSerializer):
    name = TextField(max_length=MAX_SESSION_NAME, required=False, allow_blank=True)
    project = TextField(max_length=MAX_REFERENCE_LENGTH, required=False, allow_blank=True)


@extend_schema_view(get=extend_schema(operation_id="list_session_templates"))
class TemplateListView(ListAPIView[SessionTemplate]):
    """List the templates that you may use: your own, and those of your projects, your domain and
    everybody.
    """

    token_scopes = FOR_SESSIONS
    serializer_class = TemplateOut
    filter_backends = ()
    queryset = SessionTemplate.objects.none()

    def get_queryset(self) -> QuerySet[SessionTemplate]:
        return templates.visible_templates(actor_of(self.request))

    @extend_schema(
        operation_id="create_session_template", request=TemplateInput, responses={201: TemplateSavedOut}
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a template: your own, or as an administrator for a project, a domain or everybody,
        for which a token needs the scope `admin`.
        """
        asked = TemplateInput(data=request.data)
        asked.is_valid(raise_exception=True)
        require_sharing_scope(request, asked.validated_data["sharing"])
        saved = templates.create_template(actor=actor_of(request), **asked.validated_data)
        return _saved(request, *saved, status=201)


class TemplateView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_session_template", responses={200: TemplateOut})
    def get(self, request: Request, template_id: int) -> Response:
        """Show one template."""
        template = templates.access_template(actor_of(request), template_id)
        return Response(TemplateOut(template, context={"request": request}).data)

    @extend_schema(
        operation_id="change_session_template", request=TemplateChangeInput, responses={200: TemplateSavedOut}
    )
    def patch(self, request: Request, template_id: int) -> Response:
        """Change name, description or body of a template; existing sessions are unaffected. A token
        needs the scope `admin` for shared templates.
        """
        asked = TemplateChangeInput(data=request.data)
        asked.is_valid(raise_exception=True)
        _require_scope(request, template_id)
        changed = templates.change_template(
            actor=actor_of(request), template_id=template_id, changes=asked.validated_data
        )
        return _saved(request, *changed, status=200)

    @extend_schema(operation_id="delete_session_template", responses={204: None})
    def delete(self, request: Request, template_id: int) -> Response:
        """Delete a template. A token needs the scope `admin` for shared templates."""
        _require_scope(request, template_id)
        templates.delete_template(actor=actor_of(request), template_id=template_id)
        return Response(status=204)


class TemplateStartView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="start_session_template", request=TemplateStartInput, responses={201: SessionDetailOut}
    )
    @takes_idempotency_key
    def post(self, request: Request, template_id: int) -> Response:
        """Start a session from a template, with the same checks as for a request of your own."""
        asked = TemplateStartInput(data=request.data)
        asked.is_valid(raise_exception=True)
        actor = actor_of(request)
        template = templates.access_template(actor, template_id)
        session = templates.start_from_template(actor=actor, template=template, **asked.validated_data)
        shown = ComputeSession.objects.with_parts().get(pk=session.pk)
        return Response(SessionDetailOut(shown, context={"request": request}).data, status=201)


def _require_scope(request: Request, template_id: int) -> None:
    template = templates.access_template(actor_of(request), template_id)
    require_sharing_scope(request, template.sharing)


def _saved(request: Request, template: SessionTemplate, left_out: list[str], *, status: int) -> Response:
    told = TemplateOut(template, context={"request": request}).data
    body: dict[str, Any] = {**told, "left_out": left_out}
    return Response(body, status=status)
