"""Serializers of images."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.values.resources import MEM, MILLI, format_version
from images.models import ContainerImage
from images.selectors import image_refusals


class ImageAppOut(serializers.Serializer[Any]):
    """An app that can be opened in sessions of the image."""

    name = serializers.CharField()
    title = serializers.CharField()
    port = serializers.IntegerField()


class ImageOut(serializers.ModelSerializer[ContainerImage]):
    apps = ImageAppOut(many=True)
    minimum = serializers.SerializerMethodField()
    registry = serializers.SlugRelatedField[Any](slug_field="name", read_only=True, allow_null=True)
    accelerators = serializers.ListField(
        child=serializers.CharField(), help_text="The only device slots that the image can use; empty: any."
    )
    min_cuda = serializers.SerializerMethodField(
        help_text="CUDA that the image needs, like 12.4; empty: none."
    )
    is_allowed = serializers.SerializerMethodField(
        help_text="true if policies allow you to start the image, in the given project."
    )
    objections = serializers.SerializerMethodField(
        help_text="Messages, one for each allow-list that excludes the image."
    )
    machines = serializers.SerializerMethodField(help_text="Number of machines that have the image.")
    machines_total = serializers.SerializerMethodField(help_text="Number of machines, with or without it.")

    class Meta:
        model = ContainerImage
        fields = (
            "id", "reference", "title", "description", "icon", "apps", "minimum", "accelerators", "min_cuda",
            "architecture", "digest", "size_bytes", "registry", "is_allowed", "objections", "machines",
            "machines_total", "is_pinned", "built_at", "created_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_min_cuda(self, image: ContainerImage) -> str:
        return format_version(image.min_cuda) if image.min_cuda else ""

    def get_is_allowed(self, image: ContainerImage) -> bool:
        return not self.get_objections(image)

    def get_objections(self, image: ContainerImage) -> list[str]:
        lists = image_refusals(self.context.get("scopes", ()), [image]).get(image.reference, ())
        return [each.refusal for each in lists]

    def get_machines(self, image: ContainerImage) -> int:
        counts: Mapping[str, int] = self.context["holders"][0]
        return counts.get(image.reference, 0)

    def get_machines_total(self, _image: ContainerImage) -> int:
        return int(self.context["holders"][1])

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "number"}})
    def get_minimum(self, image: ContainerImage) -> dict[str, float]:
        """Return the minimum resources of a session: cpu in cores, mem in bytes, devices as counts."""
        return {
            name: amount if name == MEM else amount / MILLI
            for name, amount in sorted(image.min_slots.items())
        }
