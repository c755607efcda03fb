"""REST of past reasons to wait of a session."""

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.input import nonempty_query_value
from common.token_scopes import FOR_SESSIONS
from scheduler.history.replay import past_wait, pending_periods
from sessions_app.core.queue_options import check_start_at
from sessions_app.selectors import Action, access_session


class WaitingPeriodOut(serializers.Serializer[Any]):
    """Period in which the session waited for one reason."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField(
        allow_null=True, help_text="End of the period; null if it still waits for this reason."
    )
    reason = serializers.CharField()
    message = serializers.CharField()
    position = serializers.IntegerField(help_text="Position in the queue at the beginning of the period.")


class PastTickOut(serializers.Serializer[Any]):
    """Last recorded scheduler run with a full snapshot before that time, and its replayed decision."""

    planned_at = serializers.DateTimeField()
    position = serializers.IntegerField()
    waiting = serializers.IntegerField(
        help_text="Number of sessions of the resource group that were not placed."
    )
    placed = serializers.IntegerField(help_text="Number of sessions that were placed.")
    is_same = serializers.BooleanField(help_text="true if the replayed decision equals the recorded one.")
    message = serializers.CharField(help_text="Message about the reason, by the replayed decision.")


class PastWaitOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    since = serializers.DateTimeField()
    reason = serializers.CharField()
    message = serializers.CharField()
    tick = PastTickOut(
        allow_null=True, help_text="null if no run with a full snapshot before that time is stored."
    )


class WhyOut(serializers.Serializer[Any]):
    stays = WaitingPeriodOut(
        many=True, help_text="Periods of waiting, oldest first; the newest 100 are kept."
    )
    wait = PastWaitOut(
        allow_null=True,
        help_text="Reason at the time `at`; null if the session did not wait for an agent then, or no "
        "record is left.",
    )


class WhyView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="read_why_it_waited",
        parameters=[OpenApiParameter("at", OpenApiTypes.DATETIME, description="Time, with time zone.")],
        responses=WhyOut,
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return the reasons for which a session waited, and since when; with `at`, the reason at
        that time. Of other sessions only the number is shown.
        """
        session = access_session(actor_of(request), session_id, Action.VIEW)
        try:
            at = check_start_at(nonempty_query_value(request, "at"))
        except ValueError as error:
            raise InvalidInput(str(error), fields={"at": [str(error)]}) from error
        stays = pending_periods(session)
        wait = past_wait(session, at, stays) if at else None
        return Response(WhyOut({"stays": stays, "wait": wait}).data)
