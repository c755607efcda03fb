"""REST about images."""

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView

from common.api import ErrorOut, actor_of
from common.scopes import EVERY_TOKEN
from images.api.serializers import ImageOut
from images.models import ContainerImage, ImageQuerySet
from images.selectors import visible_images


@extend_schema_view(
    get=extend_schema(operation_id="list_images", responses={200: ImageOut, 401: ErrorOut}, tags=["images"])
)
class ImageListView(ListAPIView[ContainerImage]):
    """Images that sessions can be started from."""

    token_scopes = EVERY_TOKEN
    serializer_class = ImageOut
    filterset_fields = ("architecture", "reference")

    def get_queryset(self) -> ImageQuerySet:
        return visible_images(actor_of(self.request))
