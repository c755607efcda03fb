"""REST body of the expected end of a running session."""

from rest_framework import serializers

from sessions_app.core.idle_rules import Judged
from sessions_app.idle.facts import Outlook
from sessions_app.idle.messages import why


class JudgedOut(serializers.Serializer[Judged]):
    name = serializers.CharField(help_text="cpu, mem, device (all accelerators), device_mem (their memory).")
    percent = serializers.IntegerField(
        allow_null=True,
        help_text="Of what is allocated to it; null: not measured, and it does not end for that.",
    )
    least = serializers.IntegerField(
        help_text="Percent; the least that its resource group or a policy wants."
    )


class EndingOut(serializers.Serializer[Outlook]):
    """Expected end of a running session if nothing changes, and its measured use."""

    ends_at = serializers.DateTimeField(allow_null=True, help_text="null: no limit ends it.")
    cause = serializers.CharField(
        help_text="lifetime, interaction, use, preemption; empty: the time limit that was requested with it."
    )
    why = serializers.SerializerMethodField(help_text="The cause in a sentence; empty where nothing ends it.")
    is_near = serializers.BooleanField(help_text="Its owner was warned.")
    is_soon = serializers.BooleanField(help_text="It ends within 30 minutes.")
    interacted_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last user activity in it."
    )
    idle_since = serializers.DateTimeField(allow_null=True, help_text="null: not limited, or not measured.")
    max_idle_s = serializers.IntegerField(allow_null=True)
    gap = serializers.CharField(help_text="Why its use is not measured now; it is not ended for that.")
    use = JudgedOut(
        many=True,
        help_text="The resources with a minimum utilization, as last measured; empty until a window is over.",
    )

    def get_why(self, outlook: Outlook) -> str:
        return why(outlook)
