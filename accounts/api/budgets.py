"""REST endpoints of budgets and prices."""

from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.budgets import service
from accounts.budgets.selectors import (
    access_budget,
    budget_impact,
    read_budget_states,
    today,
    visible_budgets,
)
from accounts.core import budget_arithmetic
from accounts.core.authorization import Action
from accounts.core.budget_arithmetic import Period, Unit
from accounts.core.limits import Level
from accounts.models import Budget, Price, period_contains
from common.rest.actor import actor_of
from common.rest.errors import ErrorOut
from common.rest.idempotency import takes_idempotency_key
from common.rest.input import InputSerializer, TextField
from common.token_scopes import EVERY_TOKEN, FOR_ADMIN

LEVELS = [level.value for level in Level]
UNITS = [unit.value for unit in Unit]
PERIODS = [period.value for period in Period]


CURRENCY_HELP = "ISO 4217 code of a budget of money; empty for GPU-hours (device_hours), or if the installation has no currency."


class BudgetOut(serializers.Serializer[Any]):
    """A budget in its current period; a term in its own period. Amounts are exact decimals, as
    text.
    """

    id = serializers.IntegerField()
    level = serializers.CharField(help_text="Level of the budget: project or user.")
    owner_id = serializers.IntegerField()
    owner = serializers.CharField(help_text="Name of the project, or e-mail address of the user.")
    unit = serializers.ChoiceField(choices=UNITS)
    currency = serializers.SerializerMethodField(help_text=CURRENCY_HELP)
    amount = serializers.DecimalField(max_digits=14, decimal_places=2)
    spent = serializers.SerializerMethodField()
    left = serializers.SerializerMethodField()
    is_hard = serializers.BooleanField(
        help_text="true: new sessions are refused when the budget is used up; false: it only warns."
    )
    warn_percent = serializers.IntegerField(
        help_text="Percentage of the amount from which the budget is nearly used up."
    )
    is_nearly_used_up = serializers.BooleanField()
    is_used_up = serializers.BooleanField()
    period = serializers.ChoiceField(choices=PERIODS)
    first = serializers.DateField(help_text="First day of the period, in UTC.")
    end = serializers.DateField(help_text="First day after the period, in UTC.")
    is_current = serializers.BooleanField(help_text="false for past and future terms.")

    def get_currency(self, state: budget_arithmetic.BudgetState) -> str:
        return str(settings.BERTH_CURRENCY) if state.unit is budget_arithmetic.Unit.MONEY else ""

    def get_spent(self, state: budget_arithmetic.BudgetState) -> str:
        return str(budget_arithmetic.round_amount(state.spent))

    def get_left(self, state: budget_arithmetic.BudgetState) -> str:
        return str(budget_arithmetic.round_amount(state.left))


class BudgetChangeInput(InputSerializer):
    unit = serializers.ChoiceField(choices=UNITS, required=False)
    amount = serializers.DecimalField(max_digits=14, decimal_places=2, min_value=0, required=False)
    period = serializers.ChoiceField(choices=PERIODS, required=False)
    starts_on = serializers.DateField(
        required=False, allow_null=True, help_text="First day of a term; only for terms."
    )
    ends_on = serializers.DateField(
        required=False, allow_null=True, help_text="Last day of a term, inclusive; only for terms."
    )
    warn_percent = serializers.IntegerField(required=False, min_value=1, max_value=100)
    is_hard = serializers.BooleanField(required=False)


class BudgetCreateInput(BudgetChangeInput):
    level = serializers.ChoiceField(choices=LEVELS, help_text="Level of the budget: project or user.")
    id = serializers.IntegerField(min_value=1, max_value=2**63 - 1, help_text="Id of the project or user.")
    unit = serializers.ChoiceField(choices=UNITS)
    amount = serializers.DecimalField(max_digits=14, decimal_places=2, min_value=0)
    period = serializers.ChoiceField(choices=PERIODS)
    warn_percent = serializers.IntegerField(required=False, default=80, min_value=1, max_value=100)
    is_hard = serializers.BooleanField(required=False, default=False)


class BudgetImpactOut(serializers.Serializer[Any]):
    """Effect of a budget if it were saved."""

    people = serializers.IntegerField(
        source="people_count", help_text="Number of users whose sessions count against the budget."
    )
    owner = serializers.CharField(source="state.owner")
    amount = serializers.DecimalField(source="state.amount", max_digits=14, decimal_places=2)
    spent = serializers.SerializerMethodField(help_text="Spending so far in the period.")
    is_nearly_used_up = serializers.BooleanField(source="state.is_nearly_used_up")
    is_used_up = serializers.BooleanField(source="state.is_used_up")
    refuses = serializers.BooleanField(
        source="state.refuses", help_text="true if new sessions would be refused at once."
    )
    first = serializers.DateField(source="state.first")
    end = serializers.DateField(source="state.end")

    def get_spent(self, impact: Any) -> str:
        return str(budget_arithmetic.round_amount(impact.state.spent))


class PriceOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    slot_name = serializers.CharField()
    since = serializers.DateField(help_text="First day of the price, in UTC.")
    currency = serializers.SerializerMethodField(
        help_text="ISO 4217 code; empty if the installation has no currency."
    )
    per_hour = serializers.DecimalField(
        max_digits=14, decimal_places=6, help_text="Price of one core, GiB or device for an hour."
    )

    def get_currency(self, price: Any) -> str:
        return str(settings.BERTH_CURRENCY)


class PriceInput(InputSerializer):
    slot_name = TextField(max_length=32)
    since = serializers.DateField(help_text="First day of the price in UTC; tomorrow or later.")
    per_hour = serializers.DecimalField(max_digits=14, decimal_places=6, min_value=0)


class BudgetFilter(filters.FilterSet):
    current = filters.BooleanFilter(
        method="of_today", label="true: without past and future terms; false: only past and future terms."
    )
    level = filters.ChoiceFilter(
        method="of_level",
        choices=[(each, each) for each in ("project", "user")],
        label="Level of the budget: project or user.",
    )
    project = filters.NumberFilter(field_name="project_id", label="Id of a project.")
    user = filters.NumberFilter(field_name="user_id", label="Id of a user.")

    class Meta:
        model = Budget
        fields = ("unit", "period")

    def of_today(self, budgets: QuerySet[Budget], _name: str, is_current: bool) -> QuerySet[Budget]:
        condition = period_contains(today())
        return budgets.filter(condition if is_current else ~condition)

    def of_level(self, budgets: QuerySet[Budget], _name: str, level: str) -> QuerySet[Budget]:
        return budgets.filter(Q(project__isnull=level != Level.PROJECT))


@extend_schema_view(get=extend_schema(operation_id="list_budgets", responses={200: BudgetOut(many=True)}))
class BudgetListView(ListAPIView[Budget]):
    """List the budgets of yourself, your projects, and the users and projects that you administer or
    monitor, with spending in the current period. Past and future terms are included.
    """

    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})
    serializer_class = BudgetOut
    filterset_class = BudgetFilter
    queryset = Budget.objects.none()

    def get_queryset(self) -> QuerySet[Budget]:
        return visible_budgets(actor_of(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(BudgetOut(read_budget_states(page or ()), many=True).data)

    @extend_schema(
        operation_id="create_budget",
        request=BudgetCreateInput,
        responses={201: BudgetOut, 400: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Create a budget for a project or user, as an administrator. Running sessions continue,
        even if the budget is used up.
        """
        level, owner_id, values = _parse_new_budget(request)
        budget = service.create_budget(actor=actor_of(request), level=level, owner_id=owner_id, **values)
        return Response(BudgetOut(read_budget_states([budget])[0]).data, status=201)


class BudgetImpactView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="check_budget",
        request=BudgetCreateInput,
        responses={200: BudgetImpactOut, 400: ErrorOut, 403: ErrorOut, 404: ErrorOut},
    )
    def post(self, request: Request) -> Response:
        """Show the effect of a budget without creating it: the number of users it applies to, and
        their spending so far.
        """
        level, owner_id, values = _parse_new_budget(request)
        budget = service.build_budget(actor_of(request), level, owner_id, values)
        return Response(BudgetImpactOut(budget_impact(budget)).data)


class BudgetView(APIView):
    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})

    @extend_schema(operation_id="read_budget", responses={200: BudgetOut})
    def get(self, request: Request, budget_id: int) -> Response:
        """Show one budget with its spending."""
        budget = access_budget(actor_of(request), budget_id, Action.VIEW)
        return Response(BudgetOut(read_budget_states([budget])[0]).data)

    @extend_schema(operation_id="change_budget", request=BudgetChangeInput, responses={200: BudgetOut})
    def patch(self, request: Request, budget_id: int) -> Response:
        """Change the given fields. Running sessions continue; `impact/` previews the effect."""
        actor = actor_of(request)
        access_budget(actor, budget_id, Action.LIMIT)
        changes = BudgetChangeInput.parse(request)
        budget = service.update_budget(actor=actor, budget_id=budget_id, changes=changes)
        return Response(BudgetOut(read_budget_states([budget])[0]).data)

    @extend_schema(operation_id="delete_budget", responses={204: None, 403: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, budget_id: int) -> Response:
        """Delete a budget. Nothing is counted against it from then on."""
        service.delete_budget(actor=actor_of(request), budget_id=budget_id)
        return Response(status=204)


class BudgetChangeImpactView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(
        operation_id="check_budget_change", request=BudgetChangeInput, responses={200: BudgetImpactOut}
    )
    def post(self, request: Request, budget_id: int) -> Response:
        """Show the effect of a change without making it."""
        budget = access_budget(actor_of(request), budget_id, Action.LIMIT)
        service.apply_budget_changes(budget, BudgetChangeInput.parse(request))
        return Response(BudgetImpactOut(budget_impact(budget)).data)


@extend_schema_view(get=extend_schema(operation_id="list_prices"))
class PriceListView(ListAPIView[Price]):
    """List past, current and future prices of an hour of each resource."""

    token_scopes = FOR_ADMIN
    token_scopes_of = MappingProxyType({"GET": EVERY_TOKEN})
    serializer_class = PriceOut
    filterset_fields = ("slot_name",)
    queryset = Price.objects.order_by("slot_name", "-since")

    @extend_schema(operation_id="create_price", request=PriceInput, responses={201: PriceOut, 403: ErrorOut})
    @takes_idempotency_key
    def post(self, request: Request) -> Response:
        """Set a price from tomorrow or a later UTC day on, as a superadmin. Past hours keep their
        price.
        """
        price = service.set_price(actor=actor_of(request), **PriceInput.parse(request))
        return Response(PriceOut(price).data, status=201)


class PriceView(APIView):
    token_scopes = FOR_ADMIN

    @extend_schema(operation_id="delete_price", responses={204: None, 403: ErrorOut, 404: ErrorOut})
    def delete(self, request: Request, price_id: int) -> Response:
        """Delete a price that begins tomorrow or later, as a superadmin. The previous price
        continues.
        """
        service.delete_price(actor=actor_of(request), price_id=price_id)
        return Response(status=204)


def _parse_new_budget(request: Request) -> tuple[Level, int, dict[str, Any]]:
    """Return level and id of the owner and the columns of a budget to create."""
    values = BudgetCreateInput.parse(request)
    return Level(values.pop("level")), values.pop("id"), values
