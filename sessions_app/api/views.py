"""REST endpoints of sessions."""

from uuid import UUID

from django.http import HttpResponse, StreamingHttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.limits import HIGHEST_PRIORITY
from accounts.logins.service import request_login
from common.rest.actor import actor_of
from common.rest.content_types import PlainTextRenderer
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, query_flag
from common.token_scopes import FOR_SESSIONS
from sessions_app.admission.forecast import forecast_session, forecast_waiting_session
from sessions_app.admission.service import enqueue_session
from sessions_app.api.serializers import (
    DEPENDENCIES,
    ExpectedStartOut,
    SessionCheckOut,
    SessionDetailOut,
    SessionOut,
    TransitionOut,
)
from sessions_app.container_io.logs import Follower, follow_log, read_log
from sessions_app.core.queue_options import LOWEST_PRIORITY
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.core.states import Status
from sessions_app.idle.extension import extend_session
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionTransition, SessionType
from sessions_app.ports import WaitForecast
from sessions_app.queue.priority import change_priority
from sessions_app.selectors import Action, access_session, find_kernel, visible_sessions
from sessions_app.termination.service import terminate_session


class SessionFilter(filters.FilterSet):
    status = filters.MultipleChoiceFilter(choices=[(status.value, status.value) for status in Status])
    type = filters.ChoiceFilter(choices=SessionType.choices)
    project = filters.CharFilter(field_name="project__name")
    name = filters.CharFilter(lookup_expr="icontains")
    array = filters.UUIDFilter(field_name="array_id")

    class Meta:
        model = ComputeSession
        fields = ("status", "type", "project", "name", "array")


@extend_schema_view(get=extend_schema(operation_id="list_sessions"))
class SessionListView(ListAPIView[ComputeSession]):
    """List the sessions that you may see, newest first."""

    token_scopes = FOR_SESSIONS
    serializer_class = SessionOut
    filterset_class = SessionFilter
    queryset = ComputeSession.objects.none()

    def get_queryset(self) -> ComputeSessionQuerySet:
        return visible_sessions(actor_of(self.request)).with_parts().prefetch_related(*DEPENDENCIES)

    @extend_schema(operation_id="create_session", request=SessionRequest, responses={201: SessionDetailOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a session. It waits until an agent has capacity; `status` shows its progress. With
        `array`, creates all elements and returns the first.
        """
        actor = actor_of(request)
        session = enqueue_session(actor=actor, request=parse_request(request.data))
        return Response(
            SessionDetailOut(
                ComputeSession.objects.with_parts().get(pk=session.pk), context={"request": request}
            ).data,
            status=201,
        )


class SessionCheckView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="check_session", request=SessionRequest, responses={200: SessionCheckOut})
    def post(self, request: Request) -> Response:
        """Forecast whether a session would start now, and on which agent, or why it would wait.
        Gives the same errors as creating it; changes nothing.
        """
        forecast = forecast_session(actor_of(request), parse_request(request.data))
        return Response(SessionCheckOut(forecast).data)


class ExpectedStartView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_expected_start", responses={200: ExpectedStartOut})
    def get(self, request: Request, session_id: UUID) -> Response:
        """Estimate the start of a waiting session, and show what would let it start."""
        actor = actor_of(request)
        session = access_session(actor, session_id, Action.VIEW)
        prospect = forecast_waiting_session(actor, session) or WaitForecast()
        return Response(ExpectedStartOut({"status": session.status, "prospect": prospect}).data)


class SessionDetailView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="read_session", responses={200: SessionDetailOut})
    def get(self, request: Request, session_id: UUID) -> Response:
        """Show one session."""
        return Response(
            SessionDetailOut(
                access_session(actor_of(request), session_id, Action.VIEW), context={"request": request}
            ).data
        )

    @extend_schema(operation_id="stop_session", responses={202: SessionDetailOut})
    def delete(self, request: Request, session_id: UUID) -> Response:
        """Stop a session. Its folders are kept. Idempotent."""
        actor = actor_of(request)
        terminate_session(actor=actor, session_id=session_id)
        return Response(
            SessionDetailOut(
                access_session(actor, session_id, Action.VIEW), context={"request": request}
            ).data,
            status=202,
        )


class SessionExtendView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(operation_id="extend_session", request=None, responses={201: SessionDetailOut})
    @takes_idempotency_key
    def post(self, request: Request, session_id: UUID) -> Response:
        """Extend a session: postpone its next automatic end, as often and as far as its resource
        group and the policies allow.
        """
        actor = actor_of(request)
        extend_session(actor=actor, session_id=session_id)
        session = access_session(actor, session_id, Action.VIEW)
        return Response(SessionDetailOut(session, context={"request": request}).data, status=201)


class PriorityInput(InputSerializer):
    priority = serializers.IntegerField(
        min_value=LOWEST_PRIORITY,
        max_value=HIGHEST_PRIORITY,
        help_text="Priority; sessions with a higher value are placed first.",
    )


class SessionPriorityView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="change_session_priority",
        request=PriorityInput,
        responses={200: SessionDetailOut, 422: ErrorOut},
    )
    def put(self, request: Request, session_id: UUID) -> Response:
        """Change the priority of a waiting session. Its owner may raise it as far as policies
        allow, and not above the value that an administrator has set.
        """
        asked = PriorityInput(data=request.data)
        asked.is_valid(raise_exception=True)
        actor = actor_of(request)
        change_priority(actor=actor, session_id=session_id, priority=asked.validated_data["priority"])
        session = access_session(actor, session_id, Action.VIEW)
        return Response(SessionDetailOut(session, context={"request": request}).data)


class SessionLogView(APIView):
    """Output of one container."""

    is_private = True
    token_scopes = FOR_SESSIONS
    renderer_classes = (PlainTextRenderer,)

    @extend_schema(
        operation_id="read_session_log",
        parameters=[
            OpenApiParameter(
                "follow", OpenApiTypes.BOOL, description="1: continue until the container ends."
            ),
            OpenApiParameter(
                "previews",
                OpenApiTypes.BOOL,
                description="1, with follow: send incomplete lines such as progress bars, and erase them as on "
                "a terminal when they are complete.",
            ),
            OpenApiParameter(
                "kernel", OpenApiTypes.STR, description="Name of the container; default: main1."
            ),
        ],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, session_id: UUID) -> HttpResponse | StreamingHttpResponse:
        """Return the output so far, at most about the last 16 MiB. Missing output is marked by a
        line that begins with `[Berth:`.
        """
        session = access_session(actor_of(request), session_id, Action.READ_LOGS)
        kernel = find_kernel(session, request.query_params.get("kernel", "main1"))
        if query_flag(request, "follow"):
            response = StreamingHttpResponse(
                follow_log(
                    Follower(actor_of(request), request_login(request)),
                    kernel,
                    has_previews=query_flag(request, "previews"),
                ),
                content_type="text/plain; charset=utf-8",
            )
        else:
            response = HttpResponse(read_log(kernel), content_type="text/plain; charset=utf-8")  # type: ignore[assignment]
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        return response


@extend_schema_view(get=extend_schema(operation_id="list_session_history"))
class SessionHistoryView(ListAPIView):  # type: ignore[type-arg]
    """List the status changes of a session with their reasons, oldest first."""

    token_scopes = FOR_SESSIONS
    serializer_class = TransitionOut
    queryset = SessionTransition.objects.none()
    filter_backends = ()

    def get_queryset(self):  # type: ignore[no-untyped-def]
        return access_session(
            actor_of(self.request), self.kwargs["session_id"], Action.VIEW
        ).transitions.all()
