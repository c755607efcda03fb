"""REST of the portal as a whole: is it well, and what is new."""

from functools import lru_cache

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import login_of
from common.errors import NotAuthenticated
from common.rest.errors import ErrorOut
from common.rest.input import asked_once
from common.token_scopes import EVERY_TOKEN
from portal.api.event_stream import EventStream
from portal.api.health import database_answers, redis_answers
from portal.api.live_updates import listeners_by_login, valid_id


class HealthOut(serializers.Serializer):  # type: ignore[type-arg]
    status = serializers.ChoiceField(choices=["ok", "degraded"])
    database = serializers.BooleanField()
    redis = serializers.BooleanField()


class HealthView(APIView):
    """For supervisors and balancers; says nothing that is worth hiding."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(operation_id="health", auth=[], responses={200: HealthOut, 503: HealthOut})
    def get(self, request: Request) -> Response:
        """200 when database and Redis answer, else 503 with the part that is down."""
        parts = {"database": database_answers(), "redis": redis_answers()}
        is_well = all(parts.values())
        headers = {"Cache-Control": "no-store", "X-Berth-Installation": settings.BERTH_INSTALLATION}
        body = {"status": "ok" if is_well else "degraded", **parts}
        return Response(body, status=200 if is_well else 503, headers=headers)


class SchemaView(SpectacularAPIView):
    """The document never changes while the process lives, and to make it takes a processor for a second."""

    token_scopes = EVERY_TOKEN

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        charset = f"; charset={renderer.charset}" if renderer.charset else ""
        return HttpResponse(
            document_in(get_language(), renderer.media_type),
            content_type=f"{renderer.media_type}{charset}",
            headers={"Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"'},  # type: ignore[no-untyped-call]
        )


# Everybody may ask for languages that there are not.
@lru_cache(maxsize=16)
def document_in(_language: str | None, media_type: str) -> bytes:
    """The OpenAPI document in the language that is spoken now, as one of these types."""
    (renderer,) = (each for each in SchemaView.renderer_classes if each.media_type == media_type)
    document = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    written = renderer().render(document, renderer_context={})
    return written.encode() if isinstance(written, str) else written


class AnyAccept(BaseContentNegotiation):
    """Browsers ask for text/event-stream; refusals are JSON whatever was asked for."""

    def select_parser(self, request: Request, parsers: list[BaseParser]) -> BaseParser:  # type: ignore[override]
        return parsers[0]

    def select_renderer(  # type: ignore[override]
        self, request: Request, renderers: list[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type or ""


class EventStreamView(APIView):
    token_scopes = EVERY_TOKEN
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="follow_events",
        parameters=[
            OpenApiParameter(
                "Last-Event-ID", str, OpenApiParameter.HEADER, description="Replays what came after this id."
            ),
            OpenApiParameter(
                "after", str, description="The same, where no header can be set; the header wins."
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, "Server-sent events without end."),
            401: ErrorOut,
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """News about what you may see, as server-sent events: `data: {"kind": "session-changed", "id": …}`.

        News carry ids, never contents: ask for the object when you hear of it. `news-missed` says that some are
        no longer kept: ask for everything again. The stream ends within seconds when the login or token does.
        """
        login = login_of(request)
        listener = listeners_by_login([login]).get(login)
        if listener is None:
            raise NotAuthenticated(_("This login has ended."), hint=_("Sign in again."))
        last_id = valid_id(request.headers.get("Last-Event-ID", "")) or valid_id(asked_once(request, "after"))
        return StreamingHttpResponse(
            EventStream(login, listener, last_id),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
