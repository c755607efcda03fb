"""Adds refusals, token scopes and Idempotency-Key to operations of the OpenAPI document."""

from typing import Any, Literal

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.negotiation import DefaultContentNegotiation

from common.errors import LimitExceeded
from common.rest.errors import ErrorOut, LimitErrorOut
from common.rest.idempotency import HEADER
from common.token_scopes import in_order, sufficient_scopes

REFUSALS = {
    400: "A value is invalid; `fields` has a message for each.",
    401: "Not signed in, or the token is unknown, revoked or expired.",
    403: "Not permitted, although you may see the object.",
    404: "The object does not exist or is hidden from you.",
    406: "The header `Accept` excludes JSON.",
    409: "The state of the object does not allow this.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A limit, or the size of the agents, does not allow this.",
    429: "Too many requests with this token in one minute; `Retry-After` is the number of seconds to wait.",
    503: "A required component is unavailable; try again later.",
}
KEY = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Text of your choice, 1 to 255 printable ASCII characters. Repeated within a day, "
    "the same request with the same key creates nothing and returns the first response.",
)


class InputSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Marks request bodies as closed: no additional properties."""

    target_class = "common.rest.input.InputSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(  # type: ignore[no-untyped-call]
            self.target, direction, bypass_extensions=True
        )
        return {**schema, "additionalProperties": False}


class OperationSchema(AutoSchema):  # type: ignore[no-untyped-call]
    """Adds responses of refusals and token scopes to each operation."""

    def get_description(self) -> str:  # type: ignore[override]
        """Return the method's docstring and the token scopes that allow it."""
        description: str = super().get_description()  # type: ignore[call-arg]
        if not self.view.authentication_classes:
            return description
        scopes = ", ".join(f"`{name}`" for name in self._scopes())
        return f"{description}\n\nA token needs one of these scopes: {scopes}.".lstrip()

    def get_extensions(self) -> dict[str, Any]:
        is_open = not self.view.authentication_classes
        return {**super().get_extensions(), **({} if is_open else {"x-token-scopes": self._scopes()})}

    def get_override_parameters(self) -> list[Any]:
        return [*super().get_override_parameters(), *([KEY] if self._takes_key() else [])]

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status in self._refusals():
            body = LimitErrorOut if status == LimitExceeded.http_status else ErrorOut
            answer = OpenApiResponse(body, REFUSALS[status])
            bodies[str(status)] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                answer, str(status), ["application/json"]
            )
        return {status: bodies[status] for status in sorted(bodies)}

    def _refusals(self) -> set[int]:
        """Return the statuses of refusals that this operation can respond with."""
        declared = getattr(self._handler(), "refuses", ())
        if not self.view.authentication_classes:
            return {406, *declared}
        found = {400, 401, 403, 429, 503, *declared}
        if isinstance(self.view.get_content_negotiator(), DefaultContentNegotiation):
            found.add(406)
        if self._has_object() or self._is_list_view():
            found.add(404)
        if self.method != "GET":
            found |= {409, 413}
        if self.method == "POST":
            found |= {404, 415, 422}
        return found

    def _scopes(self) -> list[str]:
        return in_order(sufficient_scopes(self.view, self.method))

    def _handler(self) -> Any:
        return getattr(self.view, self.method.lower(), None)

    def _takes_key(self) -> bool:
        return bool(getattr(self._handler(), "takes_idempotency_key", False))

    def _has_object(self) -> bool:
        return "{" in self.path
