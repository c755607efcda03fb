"""REST endpoints of SSH public keys: the caller's own, and those of users whose accounts the caller
may edit.
"""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.keypairs import require_newest_secret
from accounts.core.ssh_key_format import MAX_NAME_LENGTH, TYPES, check_key_name
from accounts.credentials import ssh_keys
from accounts.models import SshKey
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import FOR_ADMIN
from common.values.text import check_unicode


class SshKeyOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    key_type = serializers.ChoiceField(choices=list(TYPES))
    fingerprint = serializers.CharField(help_text="SHA-256 fingerprint as printed by ssh-keygen -l.")
    public_key = serializers.CharField(help_text="Key type and base64 data, without comment.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_ip = serializers.IPAddressField(allow_null=True)


class SshKeyAddInput(InputSerializer):
    public_key = TextField(
        check=check_unicode, help_text="Public key in one line, as in ~/.ssh/id_ed25519.pub."
    )
    name = TextField(
        check=check_key_name,
        required=False,
        allow_blank=True,
        help_text=f"Name, at most {MAX_NAME_LENGTH} characters; default: the comment of the key.",
    )


@extend_schema_view(get=extend_schema(operation_id="list_ssh_keys"))
class SshKeyListView(ListAPIView[SshKey]):
    """List your SSH public keys."""

    token_scopes = FOR_ADMIN
    serializer_class = SshKeyOut
    queryset = SshKey.objects.none()

    def get_queryset(self) -> QuerySet[SshKey]:
        return ssh_keys.visible_ssh_keys(actor_of(self.request))

    @extend_schema(
        operation_id="add_ssh_key",
        request=SshKeyAddInput,
        responses={201: SshKeyOut, (409, "application/json"): ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Add a public key: Ed25519, ECDSA, RSA with at least 2048 bits, or a key of a security
        key. A key added with a token expires with it; the token needs the scopes `sessions`,
        `folders` and `admin`.
        """
        require_newest_secret(request)
        added = ssh_keys.add_ssh_key(actor=actor_of(request), **SshKeyAddInput.parse(request))
        return Response(SshKeyOut(added).data, status=201)


class SshKeyView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="read_ssh_key", responses={200: SshKeyOut})
    def get(self, request: Request, ssh_key_id: int) -> Response:
        """Show one of your keys."""
        return Response(SshKeyOut(ssh_keys.access_ssh_key(actor_of(request), ssh_key_id)).data)

    @extend_schema(operation_id="remove_ssh_key", responses={204: None})
    def delete(self, request: Request, ssh_key_id: int) -> Response:
        """Remove a key. It stops working at once."""
        ssh_keys.remove_ssh_key(actor=actor_of(request), ssh_key_id=ssh_key_id)
        return Response(status=204)


@extend_schema_view(get=extend_schema(operation_id="list_user_ssh_keys"))
class UserSshKeyListView(ListAPIView[SshKey]):
    """List the SSH public keys of a user whose account you may edit."""

    token_scopes = FOR_ADMIN
    serializer_class = SshKeyOut
    queryset = SshKey.objects.none()

    def get_queryset(self) -> QuerySet[SshKey]:
        return ssh_keys.user_ssh_keys(actor_of(self.request), self.kwargs["user_id"])


class UserSshKeyView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="revoke_ssh_key", responses={204: None})
    def delete(self, request: Request, user_id: int, ssh_key_id: int) -> Response:
        """Remove an SSH key of a user whose account you may edit. It stops working at once."""
        ssh_keys.revoke_ssh_key(actor=actor_of(request), user_id=user_id, ssh_key_id=ssh_key_id)
        return Response(status=204)
