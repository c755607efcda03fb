"""REST endpoints of callbacks: deliveries and signing secret."""

from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.api.keypairs import require_newest_secret
from common.errors import NotFound
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.token_scopes import FOR_ADMIN, FOR_SESSIONS
from sessions_app.callbacks.delivery import list_deliveries
from sessions_app.callbacks.signing_secret import callback_secret, make_callback_secret
from sessions_app.core.callbacks import Fault
from sessions_app.models import CallbackDelivery
from sessions_app.selectors import Action, access_session


class CallbackDeliveryOut(serializers.ModelSerializer[CallbackDelivery]):
    event = serializers.CharField(
        source="news", help_text="Event: session.started, session.retried or session.ended."
    )
    happened_at = serializers.DateTimeField(source="transition.happened_at")
    answer = serializers.IntegerField(
        allow_null=True, help_text="HTTP status of the response; null if there was none."
    )
    fault = serializers.ChoiceField(
        choices=[(fault.value, fault.value) for fault in Fault], help_text="Reason why there was no response."
    )

    class Meta:
        model = CallbackDelivery
        fields = ("id", "event", "state", "attempts", "answer", "fault", "happened_at", "tried_at")


class CallbackSecretOut(serializers.Serializer[Any]):
    made_at = serializers.DateTimeField()


class NewCallbackSecretOut(CallbackSecretOut):
    secret = serializers.CharField(help_text="Signing secret; shown only in this response.")


@extend_schema_view(get=extend_schema(operation_id="list_session_callbacks"))
class SessionCallbackListView(ListAPIView[CallbackDelivery]):
    """List the callback deliveries of a session, oldest first, with the responses."""

    token_scopes = FOR_SESSIONS
    serializer_class = CallbackDeliveryOut
    queryset = CallbackDelivery.objects.none()
    filter_backends = ()

    def get_queryset(self) -> QuerySet[CallbackDelivery]:
        session_id: UUID = self.kwargs["session_id"]
        return list_deliveries(access_session(actor_of(self.request), session_id, Action.VIEW))


class CallbackSecretView(APIView):
    is_private = True
    token_scopes = FOR_SESSIONS
    token_scopes_of = MappingProxyType({"POST": FOR_ADMIN})

    @extend_schema(
        operation_id="read_callback_secret",
        responses={200: CallbackSecretOut, (404, "application/json"): ErrorOut},
    )
    def get(self, request: Request) -> Response:
        """Show when your callback secret was created; the secret itself cannot be shown again."""
        found = callback_secret(actor_of(request))
        if found is None:
            raise NotFound(_("You have no callback secret yet."))
        return Response(CallbackSecretOut(found).data)

    @extend_schema(operation_id="make_callback_secret", request=None, responses={201: NewCallbackSecretOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a new secret that signs all your callbacks from now on."""
        require_newest_secret(request)
        actor = actor_of(request)
        text = make_callback_secret(actor=actor)
        made = callback_secret(actor)
        shown = NewCallbackSecretOut({"secret": text, "made_at": made.made_at if made else None})
        return Response(shown.data, status=201, headers={"Cache-Control": "no-store"})
