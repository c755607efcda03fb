"""What programs get of machines. Amounts are integers in base units: cpu in millicores, mem in bytes."""

from typing import Any

from rest_framework import serializers

from agents.models import Agent, ResourceGroup


class AgentOut(serializers.ModelSerializer[Agent]):
    resource_group = serializers.CharField(source="resource_group.name")
    capacity = serializers.SerializerMethodField()
    occupied = serializers.SerializerMethodField()
    images = serializers.SerializerMethodField()

    class Meta:
        model = Agent
        fields = (
            "id",
            "name",
            "state",
            "resource_group",
            "architecture",
            "engine_version",
            "capacity",
            "occupied",
            "images",
            "heartbeat_at",
        )

    def get_capacity(self, agent: Agent) -> dict[str, int]:
        return agent.capacity.to_json()

    def get_occupied(self, agent: Agent) -> dict[str, int]:
        return agent.occupied.to_json()

    def get_images(self, agent: Agent) -> list[str]:
        return [image.reference for image in agent.images.all()]


class ResourceGroupOut(serializers.ModelSerializer[ResourceGroup]):
    agents: Any = serializers.IntegerField(source="agent_count", help_text="Machines in use.")

    class Meta:
        model = ResourceGroup
        fields = ("id", "name", "is_default", "is_active", "strategy", "scheduler", "agents")
