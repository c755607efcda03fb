"""REST about oneself: who am I."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.serializers import MeOut, OwnTokenOut, WhoAmIOut
from common.token_scopes import EVERY_TOKEN


class MeView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(operation_id="me", responses={200: WhoAmIOut})
    def get(self, request: Request) -> Response:
        """The person whom the token or the login belongs to, and what that token may do."""
        token = OwnTokenOut(request.auth).data if request.auth is not None else None
        return Response({**MeOut(request.user).data, "token": token})
