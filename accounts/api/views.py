"""REST endpoint of the calling user."""

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
        """Show the user of the token or login, and the scopes of the token."""
        token = OwnTokenOut(request.auth).data if request.auth is not None else None
        return Response({**MeOut(request.user).data, "token": token})
