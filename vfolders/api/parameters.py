"""Parameters that several views of files take."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from common.errors import invalid_field
from vfolders.core.uploads import IfExists

IF_EXISTS = OpenApiParameter(
    "if_exists",
    OpenApiTypes.STR,
    enum=[choice.value for choice in IfExists],
    description="If the name is taken: replace the file (default), keep both, the new one with a number, or "
    "refuse (409).",
)


def if_exists_of(request: Request) -> IfExists:
    """Return the parameter `if_exists` of the request. Raises InvalidInput."""
    with invalid_field("if_exists"):
        return IfExists(request.query_params.get("if_exists", IfExists.REPLACE))
