"""Tables of reservations: agents of a resource group reserved for one grantee, or for maintenance,
for a period.
"""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q, Value

from accounts.models import Domain, Project, User
from common import clock
from common.db.fields import NameField


class ReservationQuerySet(models.QuerySet["Reservation"]):
    def current(self, now: datetime) -> "ReservationQuerySet":
        """Reservations that have not ended at `now`."""
        return self.filter(ends_at__gt=now)


class Reservation(models.Model):
    """Exclusive use of some agents from `starts_at` until `ends_at` by a domain, project or user;
    without any of these it is maintenance. Sessions of others that run when it begins continue.
    """

    group = models.ForeignKey("agents.ResourceGroup", on_delete=models.CASCADE, related_name="reservations")
    name = NameField(max_length=64)
    reason = models.CharField(max_length=500, blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects: ClassVar = ReservationQuerySet.as_manager()

    class Meta:
        ordering = ("starts_at", "id")
        constraints = (
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="reservation_takes_time"),
            models.CheckConstraint(
                condition=Q(domain=None, project=None)
                | Q(domain=None, user=None)
                | Q(project=None, user=None),
                name="reservation_is_for_one_at_most",
            ),
        )
        indexes = (models.Index(fields=("group", "ends_at"), name="reservation_current"),)

    def __str__(self) -> str:
        return self.name

    @property
    def grantee(self) -> Domain | Project | User | None:
        return self.domain or self.project or self.user


class ReservedAgent(models.Model):
    """An agent of a reservation; `during` is the reservation's period.
    Periods of one agent never overlap.
    """

    reservation = models.ForeignKey(Reservation, on_delete=models.CASCADE, related_name="machines")
    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, related_name="reservations")
    during = DateTimeRangeField()

    class Meta:
        ordering = ("id",)
        constraints = (
            ExclusionConstraint(
                name="agent_reserved_once_at_a_time",
                # A range of one number: equality here would need a PostgreSQL extension.
                expressions=[
                    (
                        Func(F("agent"), F("agent"), Value("[]"), function="int8range"),
                        RangeOperators.OVERLAPS,
                    ),
                    (F("during"), RangeOperators.OVERLAPS),
                ],
            ),
        )

    def __str__(self) -> str:
        return f"{self.agent_id} for {self.reservation_id}"
