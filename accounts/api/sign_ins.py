"""REST endpoints of sign-in: the caller's own browser logins, and administrators' control of a
user's sign-in.
"""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.authorization import Action
from accounts.core.sign_in_requirements import MOST_NETWORKS
from accounts.logins import service as logins_service
from accounts.logins.required_actions import users_with_second_factor
from accounts.models import BrowserLogin
from accounts.selectors import access_user
from accounts.sign_in import admin_control, second_factor
from common.actors import Actor
from common.http.user_agent import device_name
from common.rest.actor import actor_of
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN


class BrowserLoginOut(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    device = serializers.SerializerMethodField()
    ip = serializers.CharField(help_text="IP address of the sign-in.")
    signed_in_at = serializers.DateTimeField(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True)
    is_this = serializers.SerializerMethodField(help_text="true if this browser sends the request.")

    def get_device(self, row: BrowserLogin) -> str:
        return device_name(row.user_agent)

    def get_is_this(self, row: BrowserLogin) -> bool:
        return row.session_key == _session_key(self.context["request"])


class SignInOut(serializers.Serializer[Any]):
    must_change_password = serializers.BooleanField()
    allowed_networks = serializers.ListField(child=serializers.CharField())
    has_password = serializers.BooleanField(
        help_text="false if an identity provider or directory keeps the password."
    )
    has_second_factor = serializers.BooleanField()
    logins = serializers.IntegerField(help_text="Number of browsers in which the user is signed in.")


class SignInInput(InputSerializer):
    must_change_password = serializers.BooleanField(
        required=False, help_text="true: the user must change the password before anything else."
    )
    allowed_networks = serializers.ListField(
        child=TextField(max_length=64),
        required=False,
        max_length=MOST_NETWORKS,
        help_text="Networks from which the account may be used, e.g. 192.0.2.0/24; empty: all.",
    )


class EndedLoginsOut(serializers.Serializer[Any]):
    ended = serializers.IntegerField(help_text="Number of browsers that were signed out.")


@extend_schema_view(get=extend_schema(operation_id="list_logins"))
class LoginListView(ListAPIView[BrowserLogin]):
    """List the browsers in which you are signed in, last used first."""

    token_scopes = FOR_ADMIN
    is_private = True
    serializer_class = BrowserLoginOut
    queryset = BrowserLogin.objects.none()

    def get_queryset(self) -> Any:
        return logins_service.visible_logins(actor_of(self.request))

    @extend_schema(operation_id="end_other_logins", responses={200: EndedLoginsOut})
    def delete(self, request: Request) -> Response:
        """Sign out all browsers except the calling one. Their open connections end within
        seconds.
        """
        count = logins_service.end_other_logins(actor=actor_of(request), except_key=_session_key(request))
        return Response({"ended": count})


class LoginView(APIView):
    token_scopes = FOR_ADMIN
    is_private = True

    @extend_schema(operation_id="end_login", responses={204: None})
    def delete(self, request: Request, login_id: str) -> Response:
        """Sign out one browser."""
        logins_service.end_login(actor=actor_of(request), login_id=login_id)
        return Response(status=204)


class UserSignInView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_user_sign_in", responses={200: SignInOut})
    def get(self, request: Request, user_id: int) -> Response:
        """Show how a user signs in, as an administrator of the account."""
        return Response(_shown(actor_of(request), user_id))

    @extend_schema(operation_id="change_user_sign_in", request=SignInInput, responses={200: SignInOut})
    def patch(self, request: Request, user_id: int) -> Response:
        """Require a password change, or set the networks from which the account may be used.
        Connections that violate it end within seconds.
        """
        actor = actor_of(request)
        access_user(actor, user_id, Action.EDIT)
        admin_control.update_sign_in(actor=actor, user_id=user_id, **SignInInput.parse(request))
        return Response(_shown(actor, user_id))


class UserSecondFactorView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="reset_user_second_factor", responses={204: None})
    def delete(self, request: Request, user_id: int) -> Response:
        """Remove authenticator app, passkeys and recovery codes of a user who lost them. Verify the
        identity of the requester first.
        """
        second_factor.reset_second_factor(actor=actor_of(request), user_id=user_id)
        return Response(status=204)


class UserLoginListView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="end_user_logins", responses={200: EndedLoginsOut})
    def delete(self, request: Request, user_id: int) -> Response:
        """Sign a user out of all browsers. Tokens keep working."""
        return Response({"ended": admin_control.end_user_logins(actor=actor_of(request), user_id=user_id)})


class UserPasswordMailView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="mail_password_link", request=None, responses={202: None})
    def post(self, request: Request, user_id: int) -> Response:
        """Mail the user a password reset link. 409 if mail is not configured, or the password is
        kept by a provider or directory.
        """
        admin_control.mail_password_link(actor=actor_of(request), user_id=user_id)
        return Response(status=202)


def _shown(actor: Actor, user_id: int) -> dict[str, Any]:
    user = access_user(actor, user_id, Action.EDIT)
    found = {
        "must_change_password": user.must_change_password,
        "allowed_networks": user.allowed_networks,
        "has_password": user.has_usable_password(),
        "has_second_factor": bool(users_with_second_factor({user.pk})),
        "logins": logins_service.live_browser_logins(user.pk).count(),
    }
    return dict(SignInOut(found).data)


def _session_key(request: Any) -> str:
    return "" if request.auth is not None else request.session.session_key or ""
