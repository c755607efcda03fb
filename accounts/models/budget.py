"""Budgets, prices, and the ledger of daily allocations (ADR 0027)."""

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from accounts.core.budget_arithmetic import Period, Unit
from accounts.core.limits import Level
from common import clock

if TYPE_CHECKING:
    from accounts.models.people import Project, User


def period_contains(day: date) -> Q:
    """Filter for budgets whose period contains `day`. Only terms begin and end."""
    return ~Q(period=Period.TERM.value) | Q(starts_on__lte=day, ends_on__gte=day)


class Price(models.Model):
    """Price of an hour of one core, GiB or device, from a UTC day until a newer price applies."""

    slot_name = models.CharField(max_length=32)
    since = models.DateField()
    per_hour = models.DecimalField(max_digits=14, decimal_places=6)

    class Meta:
        ordering = ("slot_name", "-since")
        constraints = (
            models.UniqueConstraint(fields=("slot_name", "since"), name="price_once_a_day"),
            models.CheckConstraint(condition=Q(per_hour__gte=0), name="price_is_not_negative"),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} {self.per_hour}"


class Budget(models.Model):
    """Spending limit of one user or project per period. `is_central`: set by a superadmin, so only
    superadmins change it.
    """

    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    user = models.ForeignKey(
        "accounts.User", on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    unit = models.CharField(max_length=16, choices=[(unit.value, unit.value) for unit in Unit])
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    period = models.CharField(max_length=8, choices=[(period.value, period.value) for period in Period])
    starts_on = models.DateField(null=True, blank=True)
    ends_on = models.DateField(null=True, blank=True)
    warn_percent = models.PositiveSmallIntegerField(default=80)
    is_hard = models.BooleanField(
        default=False, help_text=gettext_lazy("Used up, it refuses new sessions; else it only warns.")
    )
    is_central = models.BooleanField(default=False, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(project=None, user__isnull=False) | Q(project__isnull=False, user=None),
                name="budget_has_one_owner",
            ),
            models.CheckConstraint(condition=Q(amount__gte=Decimal(0)), name="budget_is_not_negative"),
            models.CheckConstraint(
                condition=Q(warn_percent__gte=1, warn_percent__lte=100), name="budget_warns_in_percent"
            ),
            models.CheckConstraint(
                condition=(
                    Q(period=Period.TERM.value, starts_on__isnull=False, ends_on__gte=models.F("starts_on"))
                    | (~Q(period=Period.TERM.value) & Q(starts_on=None, ends_on=None))
                ),
                name="budget_term_has_days",
            ),
        )

    def __str__(self) -> str:
        return f"{self.amount} {self.unit} a {self.period}"

    @property
    def owner(self) -> "Project | User":
        owner = self.project or self.user
        assert owner is not None
        return owner

    @property
    def owner_key(self) -> tuple[Level, int]:
        """Level and id of the owner, without reading the owner."""
        if self.project_id is not None:
            return Level.PROJECT, self.project_id
        assert self.user_id is not None
        return Level.USER, self.user_id

    @property
    def owner_name(self) -> str:
        """Name of the project, or e-mail address of the user."""
        return self.project.name if self.project else str(self.user)

    @property
    def domain_id(self) -> int:
        """Domain of the owner, for the audit log."""
        return self.owner.domain_id


class DaySlots(models.Model):
    """Allocation of one slot by ended sessions of one user in one project on one UTC day, in base
    units × microseconds. Written only by a database trigger when allocation rows are deleted. Rows
    outlive the project and user.
    """

    day = models.DateField()
    project_id = models.BigIntegerField()
    user_id = models.BigIntegerField()
    slot_name = models.CharField(max_length=32)
    held = models.DecimalField(max_digits=40, decimal_places=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("project_id", "user_id", "slot_name", "day"), name="day_slots_once"
            ),
        )
        indexes = (
            models.Index(fields=("project_id", "day"), name="day_slots_project"),
            models.Index(fields=("user_id", "day"), name="day_slots_user"),
        )

    def __str__(self) -> str:
        return f"{self.held} {self.slot_name} on {self.day}"
