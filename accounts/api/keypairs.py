"""REST of keypairs: one's own, and those of people whose accounts one may change."""

from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.serializers import (
    KeyPairChangeInput,
    KeyPairCreatedOut,
    KeyPairCreateInput,
    KeyPairOut,
    KeyPairRotateInput,
)
from accounts.core.token_secrets import USUAL_LIFE
from accounts.credentials import keypairs as credentials_keypairs
from accounts.models import KeyPair
from common import clock
from common.errors import PermissionDenied
from common.rest.actor import actor_of
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN


@extend_schema_view(get=extend_schema(operation_id="list_keypairs"))
class KeyPairListView(ListAPIView[KeyPair]):
    """Your API tokens; their secrets are not kept and cannot be shown again."""

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
        """A new API token. Its text is in this answer and nowhere else. One created with a token reaches no further than that
        token: no scope more, no day longer."""
        demand_newest_secret(request)
        asked = KeyPairCreateInput(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted = {"expires_at": clock.now() + USUAL_LIFE, **asked.validated_data}
        return _shown_once(
            *credentials_keypairs.create_keypair(actor=actor_of(request), **wanted), status=201
        )


class KeyPairView(APIView):
    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"DELETE": EVERY_TOKEN})

    @extend_schema(operation_id="read_keypair", responses={200: KeyPairOut})
    def get(self, request: Request, keypair_id: int) -> Response:
        """One of your tokens."""
        return Response(KeyPairOut(credentials_keypairs.access_keypair(actor_of(request), keypair_id)).data)

    @extend_schema(operation_id="change_keypair", request=KeyPairChangeInput, responses={200: KeyPairOut})
    def patch(self, request: Request, keypair_id: int) -> Response:
        """Another name or other scopes; `is_active` false stops a token until it is true again. What it may no longer do
        ends within seconds."""
        demand_newest_secret(request)
        asked = KeyPairChangeInput(data=request.data)
        asked.is_valid(raise_exception=True)
        changed = credentials_keypairs.update_keypair(
            actor=actor_of(request), keypair_id=keypair_id, **asked.validated_data
        )
        return Response(KeyPairOut(changed).data)

    @extend_schema(operation_id="delete_keypair", responses={204: None})
    def delete(self, request: Request, keypair_id: int) -> Response:
        """Revoke a token; it is refused from now on, and what it opened ends within seconds. A token of any scope may end
        itself; to end others it needs `admin`."""
        credentials_keypairs.delete_keypair(actor=actor_of(request), keypair_id=keypair_id)
        return Response(status=204)


class KeyPairRotationView(APIView):
    token_scopes = EVERY_TOKEN

    @extend_schema(
        operation_id="rotate_keypair", request=KeyPairRotateInput, responses={200: KeyPairCreatedOut}
    )
    def post(self, request: Request, keypair_id: int) -> Response:
        """A new secret for a token; its text is in this answer and nowhere else. The old secret ends at once, or after
        `grace_hours`. A token of any scope may rotate itself; to rotate others it needs `admin`."""
        demand_newest_secret(request)
        asked = KeyPairRotateInput(data=request.data)
        asked.is_valid(raise_exception=True)
        grace = timedelta(hours=asked.validated_data["grace_hours"])
        rotated = credentials_keypairs.rotate_keypair(
            actor=actor_of(request), keypair_id=keypair_id, grace=grace
        )
        return _shown_once(*rotated, status=200)


@extend_schema_view(get=extend_schema(operation_id="list_user_keypairs"))
class UserKeyPairListView(ListAPIView[KeyPair]):
    """The API tokens of a person whose account you may change."""

    token_scopes = FOR_ADMIN
    serializer_class = KeyPairOut
    queryset = KeyPair.objects.none()

    def get_queryset(self) -> QuerySet[KeyPair]:
        return credentials_keypairs.keypairs_of(actor_of(self.request), self.kwargs["user_id"])


class UserKeyPairView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="revoke_keypair", responses={204: None})
    def delete(self, request: Request, user_id: int, keypair_id: int) -> Response:
        """Revoke a token of such a person; it is refused from now on, and what it opened ends within seconds."""
        credentials_keypairs.revoke_keypair(actor=actor_of(request), user_id=user_id, keypair_id=keypair_id)
        return Response(status=204)


def _shown_once(keypair: KeyPair, token: str, *, status: int) -> Response:
    body: dict[str, Any] = {**KeyPairOut(keypair).data, "token": token}
    return Response(body, status=status, headers={"Cache-Control": "no-store"})


def demand_newest_secret(request: Request) -> None:
    """A secret that was replaced may be in other hands: it makes and changes no tokens, or its thief could keep one. Raises
    PermissionDenied."""
    its = request.auth
    if isinstance(its, KeyPair) and its.shown_secret_hash != its.secret_hash:
        raise PermissionDenied(
            _("This secret was replaced by another one: it creates and changes no tokens."),
            hint=_("Use the new secret."),
        )
