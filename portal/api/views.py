"""REST endpoints of health, live updates and the OpenAPI document."""

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
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from common.errors import NotAuthenticated
from common.rest.content_types import AnyAccept
from common.rest.errors import ErrorOut
from common.rest.input import query_value
from common.token_scopes import EVERY_TOKEN
from portal.api.event_stream import EventStream
from portal.api.health import database_answers, redis_answers
from portal.api.live_updates import listeners_by_login, valid_id


class HealthOut(serializers.Serializer):  # type: ignore[type-arg]
    status = serializers.ChoiceField(choices=["ok", "degraded"])
    database = serializers.BooleanField()
    redis = serializers.BooleanField()


class HealthView(APIView):
    """Health check for supervisors and load balancers, without sign-in."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(operation_id="health", auth=[], responses={200: HealthOut, 503: HealthOut})
    def get(self, request: Request) -> Response:
        """200 if database and Redis answer, else 503 with the component that is down."""
        parts = {"database": database_answers(), "redis": redis_answers()}
        is_well = all(parts.values())
        headers = {"Cache-Control": "no-store", "X-Berth-Installation": settings.BERTH_INSTALLATION}
        body = {"status": "ok" if is_well else "degraded", **parts}
        return Response(body, status=200 if is_well else 503, headers=headers)


class SchemaView(SpectacularAPIView):
    """OpenAPI document, cached: it never changes, and takes a second of CPU time."""

    token_scopes = EVERY_TOKEN

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        charset = f"; charset={renderer.charset}" if renderer.charset else ""
        return HttpResponse(
            document_in(get_language(), renderer.media_type),
            content_type=f"{renderer.media_type}{charset}",
            headers={"Content-Disposition": f'inline; filename="{self._get_filename(request, None)}"'},  # type: ignore[no-untyped-call]
        )


# Bounded, as requests may name any language.
@lru_cache(maxsize=16)
def document_in(_language: str | None, media_type: str) -> bytes:
    """Return the OpenAPI document in the current language, in one of these media types."""
    (renderer,) = (each for each in SchemaView.renderer_classes if each.media_type == media_type)
    document = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    written = renderer().render(document, renderer_context={})
    return written.encode() if isinstance(written, str) else written


class EventStreamView(APIView):
    token_scopes = EVERY_TOKEN
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="follow_events",
        parameters=[
            OpenApiParameter(
                "Last-Event-ID",
                str,
                OpenApiParameter.HEADER,
                description="Id of the last received event; the stream begins with the events after it.",
            ),
            OpenApiParameter(
                "after",
                str,
                description="As Last-Event-ID, for clients that cannot set headers; the header takes "
                "precedence.",
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(
                OpenApiTypes.STR, "Endless stream of server-sent events."
            ),
            401: ErrorOut,
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Follow live updates as server-sent events: `data: {"kind": "session-changed", "id": …}`.

        Updates concern objects that you may see and carry ids, never contents: fetch the object
        when you receive one. `news-missed` means that some updates are no longer available: fetch
        everything again. The stream ends within seconds of the end of the login or token.
        """
        login = request_login(request)
        listener = listeners_by_login([login]).get(login)
        if listener is None:
            raise NotAuthenticated(_("This login has ended."), hint=_("Sign in again."))
        last_id = valid_id(request.headers.get("Last-Event-ID", "")) or valid_id(
            query_value(request, "after")
        )
        return StreamingHttpResponse(
            EventStream(login, listener, last_id),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
