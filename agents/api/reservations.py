"""REST views of the reservations of a resource group."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.core.limits import Level
from accounts.models import KeyPair
from accounts.policies.service import access_limited
from accounts.selectors import require_superadmin
from agents.api.serializers import GRANT_LEVELS
from agents.models import Reservation, ResourceGroup
from agents.reservations import service
from agents.reservations.selectors import access_entry, current_entries
from agents.selectors import access_group
from common.actors import Actor
from common.errors import InvalidInput
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.rest.pagination import StandardPagination
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN


class ReservationInput(InputSerializer):
    name = TextField(max_length=64)
    reason = TextField(max_length=500, required=False, allow_blank=True)
    agents = serializers.ListField(
        child=TextField(max_length=64),
        max_length=service.MOST_AGENTS,
        help_text="Names of agents of the group.",
    )
    starts_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Start of the reservation; default: now."
    )
    ends_at = serializers.DateTimeField()
    level = serializers.ChoiceField(
        choices=GRANT_LEVELS,
        required=False,
        help_text="Level of the holder; absent: maintenance, for nobody.",
    )
    id = serializers.IntegerField(
        min_value=1, max_value=2**63 - 1, required=False, help_text="Id of the domain, project or user."
    )


class ReservationChange(InputSerializer):
    """Changes of a reservation; absent fields stay unchanged."""

    name = TextField(max_length=64, required=False)
    reason = TextField(max_length=500, required=False, allow_blank=True)
    agents = serializers.ListField(
        child=TextField(max_length=64),
        max_length=service.MOST_AGENTS,
        required=False,
        help_text="Names of all agents of the reservation, instead of the present ones.",
    )
    starts_at = serializers.DateTimeField(
        required=False, help_text="Cannot be changed once the reservation has begun."
    )
    ends_at = serializers.DateTimeField(required=False)


class ReservationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField(allow_blank=True, help_text="Empty for reservations of others.")
    reason = serializers.CharField(allow_blank=True)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    level = serializers.CharField(
        allow_blank=True,
        help_text="Level of the holder: domain, project or user; empty for maintenance and for "
        "reservations of others.",
    )
    grantee = serializers.CharField(
        allow_blank=True, help_text="Name of the domain or project, or e-mail address of the user."
    )
    agents = serializers.ListField(child=serializers.CharField())
    is_open = serializers.BooleanField(help_text="true if the reservation has begun.")


class ReservationListView(GenericAPIView[Reservation]):
    token_scopes = FOR_ADMIN
    token_scopes_of = {"GET": EVERY_TOKEN}  # noqa: RUF012
    serializer_class = ReservationOut
    pagination_class = StandardPagination
    queryset = Reservation.objects.none()

    @extend_schema(operation_id="list_reservations", responses=ReservationOut(many=True))
    def get(self, request: Request, group_id: int) -> Response:
        """List present and future reservations, by start.
        Reservations of others show only their agents and times.
        """
        actor = actor_of(request)
        entries: Any = current_entries(actor, access_group(actor, group_id))
        page = self.paginate_queryset(entries)
        return self.get_paginated_response(ReservationOut(page, many=True).data)

    @extend_schema(
        operation_id="reserve_agents",
        request=ReservationInput,
        responses={201: ReservationOut, 409: ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request, group_id: int) -> Response:
        """Reserve agents of the group for a domain, project or user, or for maintenance.
        For superadmins.
        """
        actor = actor_of(request)
        group = access_group(actor, group_id)
        require_superadmin(actor)
        data = ReservationInput(data=request.data)
        data.is_valid(raise_exception=True)
        columns = dict(data.validated_data)
        level, scope_id = columns.pop("level", None), columns.pop("id", None)
        if (level is None) != (scope_id is None):
            sentence = "Give both level and id, or none of them for maintenance."
            raise InvalidInput(sentence, fields={"id" if scope_id is None else "level": [sentence]})
        grantee = None if level is None else access_limited(actor, Level(level), scope_id)
        assert not isinstance(grantee, KeyPair)
        columns.setdefault("starts_at", None)
        made = service.reserve_agents(actor=actor, group_id=group_id, grantee=grantee, **columns)
        return Response(_reservation_data(actor, group, made), status=201)


class ReservationView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="change_reservation",
        request=ReservationChange,
        responses={200: ReservationOut, 409: ErrorOut},
    )
    def patch(self, request: Request, group_id: int, reservation_id: int) -> Response:
        """Change the name, reason, time or agents of a reservation. For superadmins."""
        actor = actor_of(request)
        group = access_group(actor, group_id)
        require_superadmin(actor)
        data = ReservationChange(data=request.data)
        data.is_valid(raise_exception=True)
        changed = service.change_reservation(
            actor=actor, group_id=group_id, reservation_id=reservation_id, **data.validated_data
        )
        return Response(_reservation_data(actor, group, changed))

    @extend_schema(operation_id="cancel_reservation", responses={204: None})
    def delete(self, request: Request, group_id: int, reservation_id: int) -> Response:
        """Cancel a reservation, so that everyone can use its agents again. For superadmins."""
        service.cancel_reservation(actor=actor_of(request), group_id=group_id, reservation_id=reservation_id)
        return Response(status=204)


def _reservation_data(actor: Actor, group: ResourceGroup, reservation: Reservation) -> Any:
    return ReservationOut(access_entry(actor, group, reservation.pk)).data
