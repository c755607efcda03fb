"""REST view that lists images."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView

from accounts.limits import read_scopes, scope_ids
from accounts.selectors import access_usable_project
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.input import query_value
from common.token_scopes import EVERY_TOKEN
from images.api.serializers import ImageOut
from images.models import ContainerImage, ImageQuerySet
from images.ports import image_holders
from images.selectors import visible_images


@extend_schema_view(
    get=extend_schema(
        operation_id="list_images",
        parameters=[
            OpenApiParameter(
                "project",
                OpenApiTypes.STR,
                description="Your project for which `is_allowed` is decided; without it, policies of projects "
                "are not considered.",
            )
        ],
        responses={200: ImageOut, 401: ErrorOut, 403: ErrorOut, 404: ErrorOut},
        tags=["images"],
    )
)
class ImageListView(ListAPIView[ContainerImage]):
    """List the images for sessions, and whether policies allow you to start them."""

    token_scopes = EVERY_TOKEN
    serializer_class = ImageOut
    filterset_fields = ("architecture", "reference")

    def get_queryset(self) -> ImageQuerySet:
        return visible_images(actor_of(self.request))

    def paginate_queryset(self, queryset: Any) -> Any:
        self.page = super().paginate_queryset(queryset) or []
        return self.page

    def get_serializer_context(self) -> Mapping[str, Any]:
        """Add the scopes whose allow-lists apply, and the numbers of machines that have the images.
        Without a signed-in user, as when the OpenAPI document is generated, there are none.
        """
        context = super().get_serializer_context()
        if not self.request.user.is_authenticated:
            return context
        actor = actor_of(self.request)
        name = query_value(self.request, "project")
        project = access_usable_project(actor, name) if name else None
        holders = image_holders.get()(actor, [image.reference for image in self.page])
        return {**context, "scopes": read_scopes(scope_ids(actor, project).keys()), "holders": holders}
