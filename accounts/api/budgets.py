"""REST of budgets and prices."""

from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts import budgeting, spending
from accounts.budgets import Budget, Price
from accounts.quota import Level
from accounts.spending import Period, Unit
from common.api import ErrorOut, InputSerializer, TextField, actor_of
from common.idempotency import takes_idempotency_key
from common.scopes import EVERY_TOKEN, FOR_ADMIN

LEVELS = [level.value for level in Level]


class BudgetOut(serializers.Serializer[Any]):
    """A budget in its present period; exact decimals, as text."""

    id = serializers.IntegerField()
    level = serializers.CharField(help_text="project or user.")
    owner = serializers.CharField(help_text="Name of the project, or e-mail of the person.")
    unit = serializers.ChoiceField(choices=[unit.value for unit in Unit])
    amount = serializers.DecimalField(max_digits=14, decimal_places=2)
    spent = serializers.SerializerMethodField()
    left = serializers.SerializerMethodField()
    is_hard = serializers.BooleanField(help_text="Used up, it refuses new sessions; else it only warns.")
    warn_percent = serializers.IntegerField()
    is_used_up = serializers.BooleanField()
    first = serializers.DateField(help_text="First day of the period, in UTC.")
    end = serializers.DateField(help_text="The first day that is not in it any more.")

    def get_spent(self, state: spending.BudgetState) -> str:
        return str(spending.rounded(state.spent))

    def get_left(self, state: spending.BudgetState) -> str:
        return str(spending.rounded(state.left))


class BudgetCreateInput(InputSerializer):
    level = serializers.ChoiceField(choices=LEVELS, help_text="project or user.")
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1, help_text="Of the project or person.")
    unit = serializers.ChoiceField(choices=[unit.value for unit in Unit])
    amount = serializers.DecimalField(max_digits=14, decimal_places=2, min_value=0)
    period = serializers.ChoiceField(choices=[period.value for period in Period])
    starts_on = serializers.DateField(required=False, allow_null=True, help_text="Of a term alone.")
    ends_on = serializers.DateField(required=False, allow_null=True, help_text="Of a term: its last day.")
    warn_percent = serializers.IntegerField(required=False, default=80, min_value=1, max_value=100)
    is_hard = serializers.BooleanField(required=False, default=False)


class BudgetSetOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    unit = serializers.CharField()
    amount = serializers.DecimalField(max_digits=14, decimal_places=2)
    period = serializers.CharField()
    starts_on = serializers.DateField(allow_null=True)
    ends_on = serializers.DateField(allow_null=True)
    warn_percent = serializers.IntegerField()
    is_hard = serializers.BooleanField()


class PriceOut(serializers.Serializer[Any]):
    slot_name = serializers.CharField()
    since = serializers.DateField(help_text="From this day of UTC on.")
    per_hour = serializers.DecimalField(
        max_digits=14, decimal_places=6, help_text="Of a core, GiB or device."
    )


class PriceInput(InputSerializer):
    slot_name = TextField(max_length=32)
    since = serializers.DateField()
    per_hour = serializers.DecimalField(max_digits=14, decimal_places=6, min_value=0)


@extend_schema_view(get=extend_schema(operation_id="list_budgets", responses={200: BudgetOut(many=True)}))
class BudgetListView(ListAPIView[Budget]):
    """Budgets of yourself, your projects, and whom you look after, with what is spent of them in this period."""

    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})
    serializer_class = BudgetOut
    filterset_fields = ()
    queryset = Budget.objects.none()

    def get_queryset(self) -> QuerySet[Budget]:
        return budgeting.visible_budgets(actor_of(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(BudgetOut(budgeting.states_of(page or ()), many=True).data)

    @extend_schema(
        operation_id="create_budget",
        request=BudgetCreateInput,
        responses={201: BudgetSetOut, 400: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Give a project or a person a budget, as an administrator. What runs goes on, whatever is spent."""
        asked = BudgetCreateInput(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted = dict(asked.validated_data)
        budget = budgeting.create_budget(
            actor=actor_of(request),
            level=Level(wanted.pop("level")),
            owner_id=wanted.pop("id"),
            unit=Unit(wanted.pop("unit")),
            period=Period(wanted.pop("period")),
            **wanted,
        )
        return Response(BudgetSetOut(budget).data, status=201)


class BudgetView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="delete_budget", responses={204: None, 403: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, budget_id: int) -> Response:
        """Take a budget away: nothing is counted against it any more."""
        budgeting.delete_budget(actor=actor_of(request), budget_id=budget_id)
        return Response(status=204)


@extend_schema_view(get=extend_schema(operation_id="list_prices"))
class PriceListView(ListAPIView[Price]):
    """What an hour of each resource costs, and did before."""

    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})
    serializer_class = PriceOut
    filterset_fields = ("slot_name",)
    queryset = Price.objects.order_by("slot_name", "-since")

    @extend_schema(operation_id="create_price", request=PriceInput, responses={201: PriceOut, 403: ErrorOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Set a price from today or a later day on, as a superadmin. The past keeps its prices."""
        asked = PriceInput(data=request.data)
        asked.is_valid(raise_exception=True)
        price = budgeting.set_price(actor=actor_of(request), **asked.validated_data)
        return Response(PriceOut(price).data, status=201)
