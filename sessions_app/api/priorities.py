"""REST endpoint of the priority of a waiting session."""

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.limits import HIGHEST_PRIORITY
from common.rest.actor import actor_of
from common.rest.input import InputSerializer
from common.token_scopes import FOR_SESSIONS
from sessions_app.api.devices import SessionDetailOut
from sessions_app.api.views import REFUSALS
from sessions_app.core.queue_options import LOWEST_PRIORITY
from sessions_app.queue.priority import change_priority
from sessions_app.selectors import Action, access_session


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
        responses={200: SessionDetailOut, **REFUSALS},
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
