"""REST endpoints of resource presets."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.rest.actor import actor_of
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_SESSIONS
from sessions_app.api.sharing import SHARINGS, SharedOut, require_sharing_scope
from sessions_app.core.request import RESOURCES
from sessions_app.core.template_rules import MAX_NAME_LENGTH, Sharing
from sessions_app.models import ResourcePreset
from sessions_app.session_templates import presets

RESOURCES_HELP = 'Amounts by slot, e.g. {"cpu": 8, "mem": "32g", "cuda": 1, "shm": "8g"}; shm is optional.'


@extend_schema_field(RESOURCES)
class ResourcesField(serializers.DictField):
    """Amounts by name, as in the request of a session."""


class PresetOut(SharedOut):
    resources = serializers.DictField(
        source="slots", child=serializers.IntegerField(), help_text="Amounts by slot, in base units."
    )
    shm_bytes = serializers.IntegerField(allow_null=True, help_text="Shared memory in bytes; null: not set.")

    class Meta:
        model = ResourcePreset
        fields = (
            "id", "name", "sharing", "project", "domain", "resources", "shm_bytes", "changed_by", "changed_at",
        )  # fmt: skip


class PresetInput(InputSerializer):
    name = TextField(max_length=MAX_NAME_LENGTH)
    sharing = serializers.ChoiceField(choices=SHARINGS, default=Sharing.PROJECT.value)
    place = TextField(
        max_length=64,
        required=False,
        allow_blank=True,
        help_text="Name of the project, or of a domain other than your own. Empty for “own” and “everybody”.",
    )
    resources = ResourcesField(help_text=RESOURCES_HELP)


class PresetChangeInput(InputSerializer):
    name = TextField(max_length=MAX_NAME_LENGTH, required=False)
    resources = ResourcesField(required=False, help_text=RESOURCES_HELP)


@extend_schema_view(get=extend_schema(operation_id="list_presets"))
class PresetListView(ListAPIView[ResourcePreset]):
    """List the presets that you may use: your own, and those of your projects, your domain and everybody."""

    token_scopes = FOR_SESSIONS
    serializer_class = PresetOut
    filter_backends = ()
    queryset = ResourcePreset.objects.none()

    def get_queryset(self) -> QuerySet[ResourcePreset]:
        return presets.visible_presets(actor_of(self.request))

    @extend_schema(operation_id="create_preset", request=PresetInput, responses={201: PresetOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a preset: your own, or as superadmin for everybody, as domain admin for a domain,
        as project admin for a project. A token needs the scope `admin` except for `own`.
        """
        asked = PresetInput(data=request.data)
        asked.is_valid(raise_exception=True)
        require_sharing_scope(request, asked.validated_data["sharing"])
        made = presets.create_preset(actor=actor_of(request), **asked.validated_data)
        return Response(_preset_json(request, made), status=201)


class PresetView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_preset", responses={200: PresetOut})
    def get(self, request: Request, preset_id: int) -> Response:
        """Show one preset."""
        return Response(_preset_json(request, presets.access_preset(actor_of(request), preset_id)))

    @extend_schema(operation_id="change_preset", request=PresetChangeInput, responses={200: PresetOut})
    def patch(self, request: Request, preset_id: int) -> Response:
        """Change name or size of a preset; existing sessions are unaffected. A token needs the
        scope `admin` for shared presets.
        """
        asked = PresetChangeInput(data=request.data)
        asked.is_valid(raise_exception=True)
        _require_scope(request, preset_id)
        changed = presets.change_preset(
            actor=actor_of(request), preset_id=preset_id, changes=asked.validated_data
        )
        return Response(_preset_json(request, changed))

    @extend_schema(operation_id="delete_preset", responses={204: None})
    def delete(self, request: Request, preset_id: int) -> Response:
        """Delete a preset. A token needs the scope `admin` for shared presets."""
        _require_scope(request, preset_id)
        presets.delete_preset(actor=actor_of(request), preset_id=preset_id)
        return Response(status=204)


def _require_scope(request: Request, preset_id: int) -> None:
    require_sharing_scope(request, presets.access_preset(actor_of(request), preset_id).sharing)


def _preset_json(request: Request, preset: ResourcePreset) -> dict[str, Any]:
    return dict(PresetOut(preset, context={"request": request}).data)
