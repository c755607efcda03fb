"""REST of recorded ticks, preemptions and waiting times."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.selectors import access_group_to_administer
from common import clock
from common.rest.actor import actor_of
from common.token_scopes import FOR_ADMIN
from scheduler.history.selectors import preemptions_in, tick_records
from scheduler.history.wait_times import MAX_SESSIONS, read_wait_times
from scheduler.models import KeptTick
from sessions_app.models import Preemption


class TickOut(serializers.ModelSerializer[KeptTick]):
    """One run of the scheduler. Times are in microseconds."""

    reasons: Any = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of sessions that were not placed, by reason."
    )
    is_replayable = serializers.SerializerMethodField(
        help_text="true if the snapshot is stored, so that the decision can be replayed."
    )

    class Meta:
        model = KeptTick
        fields = (
            "id",
            "planned_at",
            "read_us",
            "decide_us",
            "commit_us",
            "placed",
            "waiting",
            "reasons",
            "is_replayable",
        )

    def get_is_replayable(self, tick: KeptTick) -> bool:
        return tick.picture_bytes > 0


@extend_schema_view(get=extend_schema(operation_id="list_ticks"))
class TickListView(ListAPIView[KeptTick]):
    """List recent decisions of the scheduler in a resource group, newest first; runs that decided
    nothing new are not recorded. For superadmins and monitors.
    """

    token_scopes = FOR_ADMIN
    serializer_class = TickOut
    queryset = KeptTick.objects.none()
    filter_backends = ()

    def get_queryset(self) -> QuerySet[KeptTick]:
        group = access_group_to_administer(actor_of(self.request), self.kwargs["group_id"])
        return tick_records(group)


class PreemptionOut(serializers.ModelSerializer[Preemption]):
    """A session that was preempted for another one."""

    session = serializers.UUIDField(source="session_id")
    name = serializers.CharField(source="session.name")
    by = serializers.UUIDField(source="by_id", help_text="Id of the preempting session.")
    by_name = serializers.CharField(source="by.name")
    agent = serializers.CharField(source="agent.name")
    ends_at = serializers.DateTimeField(help_text="End of the notice period.")
    outcome = serializers.ChoiceField(
        choices=[("open", "open"), ("ended", "ended"), ("spared", "spared")],
        help_text="open: the notice period is running; ended: the session was preempted; spared: the "
        "preemption was cancelled.",
    )

    class Meta:
        model = Preemption
        fields = ("session", "name", "by", "by_name", "agent", "decided_at", "ends_at", "outcome")

    def to_representation(self, instance: Preemption) -> dict[str, Any]:
        told = super().to_representation(instance)
        return told | {"outcome": instance.outcome or "open"}


@extend_schema_view(get=extend_schema(operation_id="list_preemptions"))
class PreemptionListView(ListAPIView[Preemption]):
    """List the preemptions in a resource group, also cancelled ones, newest first. For superadmins
    and monitors.
    """

    token_scopes = FOR_ADMIN
    serializer_class = PreemptionOut
    queryset = Preemption.objects.none()
    filter_backends = ()

    def get_queryset(self) -> QuerySet[Preemption]:
        group = access_group_to_administer(actor_of(self.request), self.kwargs["group_id"])
        return preemptions_in(group)


class WaitsOut(serializers.Serializer[Any]):
    """Waiting times in seconds, from entering the queue to placement. null: none started."""

    started = serializers.IntegerField(
        help_text=f"Number of sessions that started in the last hour; at most the newest {MAX_SESSIONS:,} are counted."
    )
    half_s = serializers.FloatField(allow_null=True, help_text="Median.")
    nine_of_ten_s = serializers.FloatField(allow_null=True)
    longest_s = serializers.FloatField(allow_null=True)


class WaitsView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_waits", responses=WaitsOut)
    def get(self, request: Request, group_id: int) -> Response:
        """Return the waiting times of the sessions that started in a resource group in the last
        hour. For superadmins and monitors.
        """
        group = access_group_to_administer(actor_of(request), group_id)
        return Response(WaitsOut(read_wait_times(group, clock.now())).data)
