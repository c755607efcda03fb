"""REST endpoints of API tokens: the caller's own, and those of users whose accounts the caller may
edit.
"""

from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.people_serializers import SCOPES
from accounts.core.token_secrets import DEFAULT_LIFETIME, LONGEST_GRACE, check_token_name
from accounts.credentials import keypairs as credentials_keypairs
from accounts.models import KeyPair
from common import clock
from common.errors import PermissionDenied
from common.rest.actor import actor_of
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN


class KeyPairOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    access_key = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES))
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_ip = serializers.IPAddressField(allow_null=True)
    old_secret_until = serializers.DateTimeField(
        allow_null=True, help_text="End of the period during which the previous secret still works."
    )


def scopes_field(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.ChoiceField(choices=SCOPES), required=False, max_length=len(SCOPES), **options
    )


class KeyPairCreateInput(InputSerializer):
    name = TextField(check=check_token_name, help_text="Name of the token, 1 to 60 characters.")
    scopes = scopes_field(
        help_text="Scopes of the token; default: all scopes of your present token or login."
    )
    expires_at = serializers.DateTimeField(
        required=False,
        allow_null=True,
        help_text=f"null: never. Default: in {DEFAULT_LIFETIME.days} days. Not later than that of the token that you use.",
    )


class KeyPairChangeInput(InputSerializer):
    name = TextField(check=check_token_name, required=False)
    scopes = scopes_field()
    is_active = serializers.BooleanField(
        required=False, help_text="false suspends the token until it is true again."
    )


class HoursField(serializers.FloatField):
    """Number of hours; rejects booleans and numeric strings."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return super().to_internal_value(data)


class KeyPairRotateInput(InputSerializer):
    grace_hours = HoursField(
        required=False,
        default=0,
        min_value=0,
        max_value=LONGEST_GRACE / timedelta(hours=1),
        help_text="Hours during which the previous secret still works; default: 0.",
    )


class KeyPairCreatedOut(KeyPairOut):
    token = serializers.CharField(
        help_text="Text of the token; shown only in this response, as Berth stores only a hash."
    )


@extend_schema_view(get=extend_schema(operation_id="list_keypairs"))
class KeyPairListView(ListAPIView[KeyPair]):
    """List your API tokens. Secrets are not stored and cannot be shown again."""

    token_scopes = FOR_ADMIN
    serializer_class = KeyPairOut
    queryset = KeyPair.objects.none()

    def get_queryset(self) -> QuerySet[KeyPair]:
        return credentials_keypairs.visible_keypairs(actor_of(self.request))

    @extend_schema(
        operation_id="create_keypair", request=KeyPairCreateInput, responses={201: KeyPairCreatedOut}
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create an API token. Its text is only in this response. A token created with a token has
        no further scopes and expires no later.
        """
        require_newest_secret(request)
        values = {"expires_at": clock.now() + DEFAULT_LIFETIME, **KeyPairCreateInput.parse(request)}
        return _shown_once(
            *credentials_keypairs.create_keypair(actor=actor_of(request), **values), status=201
        )


class KeyPairView(APIView):
    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"DELETE": EVERY_TOKEN})

    @extend_schema(operation_id="read_keypair", responses={200: KeyPairOut})
    def get(self, request: Request, keypair_id: int) -> Response:
        """Show one of your tokens."""
        return Response(KeyPairOut(credentials_keypairs.access_keypair(actor_of(request), keypair_id)).data)

    @extend_schema(operation_id="change_keypair", request=KeyPairChangeInput, responses={200: KeyPairOut})
    def patch(self, request: Request, keypair_id: int) -> Response:
        """Change name or scopes. `is_active` false suspends a token until it is true again.
        Connections that it may no longer open end within seconds.
        """
        require_newest_secret(request)
        changed = credentials_keypairs.update_keypair(
            actor=actor_of(request), keypair_id=keypair_id, **KeyPairChangeInput.parse(request)
        )
        return Response(KeyPairOut(changed).data)

    @extend_schema(operation_id="delete_keypair", responses={204: None})
    def delete(self, request: Request, keypair_id: int) -> Response:
        """Revoke a token. It is rejected at once, and its connections end within seconds. A token
        of any scope may revoke itself; to revoke others it needs `admin`.
        """
        credentials_keypairs.delete_keypair(actor=actor_of(request), keypair_id=keypair_id)
        return Response(status=204)


class KeyPairRotationView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(
        operation_id="rotate_keypair", request=KeyPairRotateInput, responses={200: KeyPairCreatedOut}
    )
    def post(self, request: Request, keypair_id: int) -> Response:
        """Create a new secret for a token. Its text is only in this response. The old secret ends
        at once, or after `grace_hours`. A token of any scope may rotate itself; to rotate others it
        needs `admin`.
        """
        require_newest_secret(request)
        grace = timedelta(hours=KeyPairRotateInput.parse(request)["grace_hours"])
        rotated = credentials_keypairs.rotate_keypair(
            actor=actor_of(request), keypair_id=keypair_id, grace=grace
        )
        return _shown_once(*rotated, status=200)


@extend_schema_view(get=extend_schema(operation_id="list_user_keypairs"))
class UserKeyPairListView(ListAPIView[KeyPair]):
    """List the API tokens of a user whose account you may edit."""

    token_scopes = FOR_ADMIN
    serializer_class = KeyPairOut
    queryset = KeyPair.objects.none()

    def get_queryset(self) -> QuerySet[KeyPair]:
        return credentials_keypairs.user_keypairs(actor_of(self.request), self.kwargs["user_id"])


class UserKeyPairView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="revoke_keypair", responses={204: None})
    def delete(self, request: Request, user_id: int, keypair_id: int) -> Response:
        """Revoke a token of a user whose account you may edit. It is rejected at once, and its
        connections end within seconds.
        """
        credentials_keypairs.revoke_keypair(actor=actor_of(request), user_id=user_id, keypair_id=keypair_id)
        return Response(status=204)


def _shown_once(keypair: KeyPair, token: str, *, status: int) -> Response:
    body: dict[str, Any] = {**KeyPairOut(keypair).data, "token": token}
    return Response(body, status=status, headers={"Cache-Control": "no-store"})


def require_newest_secret(request: Request) -> None:
    """Require that a token presents its newest secret. A replaced secret may be stolen, and its
    thief must not obtain a token by it. Raises PermissionDenied.
    """
    keypair = request.auth
    if isinstance(keypair, KeyPair) and keypair.shown_secret_hash != keypair.secret_hash:
        raise PermissionDenied(
            _("This secret was replaced by another one: it creates and changes no tokens."),
            hint=_("Use the new secret."),
        )
