"""REST about oneself: who am I, my keypairs."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts import selectors, services
from accounts.api.serializers import KeyPairCreatedOut, KeyPairCreateInput, KeyPairOut, MeOut
from accounts.models import KeyPair
from common.api import ErrorOut, actor_of
from common.idempotency import takes_idempotency_key


class MeView(APIView):
    @extend_schema(operation_id="me", responses={200: MeOut, 401: ErrorOut})
    def get(self, request: Request) -> Response:
        """The person whom the token or the login belongs to."""
        return Response(MeOut(request.user).data)


@extend_schema_view(
    get=extend_schema(operation_id="list_keypairs", responses={200: KeyPairOut, 401: ErrorOut})
)
class KeyPairListView(ListAPIView[KeyPair]):
    """Your API tokens; their secrets are not kept and cannot be shown again."""

    serializer_class = KeyPairOut
    queryset = KeyPair.objects.none()

    def get_queryset(self) -> QuerySet[KeyPair]:
        return selectors.visible_keypairs(actor_of(self.request))

    @extend_schema(
        operation_id="create_keypair",
        request=KeyPairCreateInput,
        responses={201: KeyPairCreatedOut, 400: ErrorOut, 401: ErrorOut, 422: ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """A new API token. Its text is in this answer and nowhere else."""
        asked = KeyPairCreateInput(data=request.data)
        asked.is_valid(raise_exception=True)
        keypair, token = services.create_keypair(actor=actor_of(request), **asked.validated_data)
        body: dict[str, Any] = {**KeyPairOut(keypair).data, "token": token}
        return Response(body, status=201, headers={"Cache-Control": "no-store"})


class KeyPairView(APIView):
    @extend_schema(operation_id="delete_keypair", responses={204: None, 401: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, keypair_id: int) -> Response:
        """Revoke a token; it is refused from now on, and streams that it opened end within seconds."""
        services.delete_keypair(actor=actor_of(request), keypair_id=keypair_id)
        return Response(status=204)
