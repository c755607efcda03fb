"""Request fields of placement groups."""

from rest_framework import serializers

from common.rest.input import InputSerializer
from sessions_app.core.placement import PlacementRule
from sessions_app.core.queue_options import MAX_SESSION_NAME


class PlacementInput(InputSerializer):
    placement_group = serializers.CharField(
        required=False,
        allow_blank=True,
        allow_null=True,
        max_length=MAX_SESSION_NAME,
        help_text="Sessions of yours in the project that name the same group are spread or packed as the rule of each says.",
    )
    placement_rule = serializers.ChoiceField(
        choices=[rule.value for rule in PlacementRule],
        required=False,
        allow_blank=True,
        allow_null=True,
        help_text=(
            "Apart from the others of the group (spread) or on their machines (pack) where there is room, or nowhere else (strict_…)."
            " An array that names no group is one."
        ),
    )
