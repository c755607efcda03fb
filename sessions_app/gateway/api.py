"""REST endpoint that issues tokens for programs to access one app."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.logins.service import request_login
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.token_scopes import FOR_SESSIONS
from sessions_app.app_services.urls import app_url, check_app_name
from sessions_app.gateway.auth.app_credentials import issue_app_token
from sessions_app.selectors import Action, access_session


class AppTokenOut(serializers.Serializer[Any]):
    url = serializers.URLField(help_text="Address of the app; its host name must resolve to the portal.")
    token = serializers.CharField(
        help_text="Token for “Authorization: Bearer <token>”; shown only in this response."
    )
    expires_at = serializers.DateTimeField()


class AppTokenView(APIView):
    token_scopes = FOR_SESSIONS

    @extend_schema(
        operation_id="create_app_token",
        request=None,
        responses={201: AppTokenOut, **{status: OpenApiResponse(ErrorOut) for status in (401, 403, 404)}},
    )
    def post(self, request: Request, session_id: UUID, app: str) -> Response:
        """Create a token for one app of a session, valid for one hour. It ends earlier with the
        token or sign-in that created it. The app never receives it.
        """
        session = access_session(actor_of(request), session_id, Action.OPEN_APP)
        check_app_name(session, app)
        token, expires_at = issue_app_token(
            actor=actor_of(request), login=request_login(request), session_id=session_id, app=app
        )
        body = {"url": app_url(session, app), "token": token, "expires_at": expires_at}
        return Response(AppTokenOut(body).data, status=201)
