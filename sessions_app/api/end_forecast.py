"""REST body of the expected end of a running session."""

from rest_framework import serializers

from sessions_app.core.idle_rules import Judged
from sessions_app.idle.facts import NextEnd
from sessions_app.idle.messages import explain_end


class JudgedOut(serializers.Serializer[Judged]):
    name = serializers.CharField(
        help_text="Resource: cpu, mem, device (all accelerators) or device_mem (their memory)."
    )
    percent = serializers.IntegerField(
        allow_null=True,
        help_text="Mean utilization in percent of the allocation; null: not measured, and so without effect.",
    )
    least = serializers.IntegerField(
        help_text="Minimum in percent that the resource group or a policy requires."
    )


class EndingOut(serializers.Serializer[NextEnd]):
    """Expected end of a running session if nothing changes, and its measured use."""

    ends_at = serializers.DateTimeField(allow_null=True, help_text="null if no limit ends the session.")
    cause = serializers.CharField(
        help_text="Reason of the end: lifetime, interaction, use or preemption; empty for the time "
        "limit of the request."
    )
    why = serializers.SerializerMethodField(
        help_text="Message about the cause; empty if nothing ends the session."
    )
    is_near = serializers.BooleanField(help_text="true if the owner was warned.")
    is_soon = serializers.BooleanField(help_text="true if the session ends within 30 minutes.")
    interacted_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last user activity.")
    idle_since = serializers.DateTimeField(
        allow_null=True, help_text="Start of the idle time; null if it is not limited or not measured."
    )
    max_idle_s = serializers.IntegerField(allow_null=True)
    gap = serializers.CharField(
        help_text="Reason why user activity is not measured now, which suspends the idle timeout; else empty."
    )
    use = JudgedOut(
        many=True,
        help_text="Resources with a minimum utilization, as last measured; empty until the first "
        "window is over.",
    )

    def get_why(self, outlook: NextEnd) -> str:
        return explain_end(outlook)
