"""Resource policies, and the ledger of their use (ADR 0024)."""

from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.allow_lists import LONGEST_ENTRY, AllowList, check_entries, check_known_hosts
from accounts.core.limits import HIGHEST_PRIORITY, Level, Limit, limit_kind, limit_slot
from accounts.core.utilization import (
    LEAST_GRACE_S,
    LEAST_WINDOW_S,
    MIN_UTILIZATION_COLUMNS,
    MOST_PERCENT,
    MOST_WINDOW_S,
    RULE_TITLES,
    UtilizationRule,
    has_min_utilization,
    ineffective_grace,
)
from accounts.ports import storage_host_names
from common import clock
from common.db.fields import NameField
from common.values.resources import MAX_AMOUNT, is_slot_name

# Limits from before policies existed. They keep a program in a loop from filling the queue.
DEFAULT_LIMITS = {"max_sessions": 200, "max_keypairs": 50}
UTILIZATION_RULES = [(rule.value, gettext_lazy(words)) for rule, words in RULE_TITLES.items()]


def _names_field(help_text: str) -> "ArrayField[list[str] | None, list[str] | None]":
    """Return a column of names; null means no list."""
    one = models.CharField(max_length=LONGEST_ENTRY)
    return ArrayField(one, null=True, blank=True, help_text=help_text)


def _percent_field() -> "models.PositiveSmallIntegerField[int | None, int | None]":
    """Return a column in percent of the allocation; null defers to group and other policies."""
    return models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MOST_PERCENT)]
    )


def _is_null_or(column: str, **bounds: int) -> Q:
    return Q(**{column: None}) | Q(**{f"{column}__{lookup}": bound for lookup, bound in bounds.items()})


class ResourcePolicy(models.Model):
    """Named limits for any number of domains, projects, users and keypairs. Null, or a slot that is
    not named, means unlimited; zero and an empty allow-list forbid. A policy with a domain applies
    only to objects of that domain and is edited by its administrators.
    """

    name = NameField(max_length=64)
    domain = models.ForeignKey(
        "accounts.Domain",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="own_policies",
        help_text=gettext_lazy("Empty: of the whole installation."),
    )
    is_default = models.BooleanField(default=False, help_text=gettext_lazy("Default for new people."))
    max_slots = models.JSONField(default=dict, blank=True)
    max_sessions = models.PositiveIntegerField(null=True, blank=True)
    max_pending_sessions = models.PositiveIntegerField(null=True, blank=True)
    max_pending_slots = models.JSONField(default=dict, blank=True)
    max_containers = models.PositiveIntegerField(null=True, blank=True)
    max_lifetime_s = models.PositiveIntegerField(null=True, blank=True)
    max_idle_s = models.PositiveIntegerField(null=True, blank=True)
    min_cpu_percent = _percent_field()
    min_mem_percent = _percent_field()
    min_device_percent = _percent_field()
    min_device_mem_percent = _percent_field()
    use_rule = models.CharField(
        max_length=3,
        choices=UTILIZATION_RULES,
        default=UtilizationRule.ANY.value,
        db_default=UtilizationRule.ANY.value,
    )
    use_window_s = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_WINDOW_S), MaxValueValidator(MOST_WINDOW_S)],
    )
    use_grace_s = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(LEAST_GRACE_S)]
    )
    max_extensions = models.PositiveIntegerField(null=True, blank=True)
    max_extension_s = models.PositiveIntegerField(null=True, blank=True)
    max_priority = models.SmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(HIGHEST_PRIORITY)]
    )
    max_folders = models.PositiveIntegerField(null=True, blank=True)
    max_folder_bytes = models.BigIntegerField(null=True, blank=True)
    max_keypairs = models.PositiveIntegerField(null=True, blank=True)
    max_requests = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Of one API token, in a minute.")
    )
    max_browsers = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[
            MinValueValidator(1, gettext_lazy("Allow at least one login, or close the account instead."))
        ],
    )
    allowed_registries = _names_field("Places that images may come from.")
    allowed_images = _names_field("Names of images that may be used; * stands for any characters.")
    allowed_storage_hosts = _names_field("Where new folders may be.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "resource policies"
        constraints = (
            models.UniqueConstraint(
                fields=("name",), condition=Q(domain=None), name="policy_name_of_installation"
            ),
            models.UniqueConstraint(fields=("domain", "name"), name="policy_name_in_domain"),
            models.CheckConstraint(
                condition=Q(is_default=False) | Q(domain=None), name="policy_default_is_of_installation"
            ),
            models.UniqueConstraint(
                fields=("is_default",), condition=Q(is_default=True), name="policy_one_default"
            ),
            models.CheckConstraint(
                condition=Q(max_folder_bytes=None) | Q(max_folder_bytes__gte=0),
                name="policy_folder_bytes_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(max_lifetime_s=None) | Q(max_lifetime_s__gt=0), name="policy_lifetime_is_time"
            ),
            models.CheckConstraint(
                condition=Q(max_priority=None) | Q(max_priority__range=(0, HIGHEST_PRIORITY)),
                name="policy_priority_in_range",
            ),
            models.CheckConstraint(
                condition=Q(max_idle_s=None) | Q(max_idle_s__gt=0), name="policy_idle_is_time"
            ),
            models.CheckConstraint(
                condition=reduce(
                    and_, (_is_null_or(name, gte=1, lte=MOST_PERCENT) for name in MIN_UTILIZATION_COLUMNS)
                ),
                name="policy_least_use_is_percent",
            ),
            models.CheckConstraint(
                condition=Q(use_rule__in=[rule.value for rule in UtilizationRule]),
                name="policy_use_rule_is_known",
            ),
            models.CheckConstraint(
                condition=_is_null_or("use_window_s", gte=LEAST_WINDOW_S, lte=MOST_WINDOW_S)
                & _is_null_or("use_grace_s", gte=LEAST_GRACE_S),
                name="policy_least_use_takes_time",
            ),
            models.CheckConstraint(
                condition=Q(max_browsers=None) | Q(max_browsers__gt=0), name="policy_browsers_let_in"
            ),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        for column in ("max_slots", "max_pending_slots"):
            if not all(map(_is_amount, getattr(self, column).items())):
                raise ValidationError({column: _("Give an amount for each slot.")})
        for kind, column in ALLOW_COLUMNS.items():
            if (entries := getattr(self, column)) is not None:
                try:
                    setattr(self, column, check_entries(kind, entries))
                    if kind is AllowList.STORAGE_HOSTS:
                        self._check_new_hosts()
                except ValueError as error:
                    raise ValidationError({column: str(error)}) from error
        self._check_utilization()

    def _check_utilization(self) -> None:
        """Check the minimum utilisation against the lifetime. Values of resource groups are not
        considered: the shortest applies.
        """
        needed_s = (self.use_window_s or 0) + (self.use_grace_s or 0)
        if has_min_utilization(self) and (too_late := ineffective_grace(self.max_lifetime_s, needed_s)):
            raise ValidationError({"use_grace_s" if self.use_grace_s else "use_window_s": too_late})

    def _check_new_hosts(self) -> None:
        """Check added storage hosts only, so that a removed host does not block other changes."""
        before = ResourcePolicy.objects.filter(pk=self.pk).values_list("allowed_storage_hosts", flat=True)
        known_hosts = before.first() or ()
        if hosts := storage_host_names.get()():
            check_known_hosts(
                (entry for entry in self.allowed_storage_hosts or () if entry not in known_hosts), hosts
            )


class LimitUse(models.Model):
    """Current use of one limit by one scope; no row means no use. Written only by triggers, which
    also reject rows that a policy does not allow.
    """

    pk = models.CompositePrimaryKey("level", "scope_id", "resource")
    level = models.CharField(max_length=10, choices=[(level.value, level.value) for level in Level])
    scope_id = models.BigIntegerField()
    resource = models.CharField(max_length=48)
    used = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.used} {self.resource} of {self.level} {self.scope_id}"


# Integer columns by limit; a test compares them with the trigger.
COLUMNS = {
    Limit.SESSIONS: "max_sessions",
    Limit.PENDING_SESSIONS: "max_pending_sessions",
    Limit.CONTAINERS: "max_containers",
    Limit.LIFETIME: "max_lifetime_s",
    Limit.IDLE_TIMEOUT: "max_idle_s",
    Limit.LEAST_CPU: "min_cpu_percent",
    Limit.LEAST_MEM: "min_mem_percent",
    Limit.LEAST_DEVICE: "min_device_percent",
    Limit.LEAST_DEVICE_MEM: "min_device_mem_percent",
    Limit.USE_WINDOW: "use_window_s",
    Limit.USE_GRACE: "use_grace_s",
    Limit.EXTENSIONS: "max_extensions",
    Limit.EXTENSION: "max_extension_s",
    Limit.PRIORITY: "max_priority",
    Limit.FOLDERS: "max_folders",
    Limit.FOLDER_BYTES: "max_folder_bytes",
    Limit.KEYPAIRS: "max_keypairs",
    Limit.REQUESTS: "max_requests",
    Limit.BROWSERS: "max_browsers",
}
ALLOW_COLUMNS = {kind: f"allowed_{kind.value}" for kind in AllowList}
SLOT_COLUMNS = {Limit.SLOTS: "max_slots", Limit.PENDING_SLOTS: "max_pending_slots"}


def policy_limits(row: dict[str, Any]) -> dict[str, int]:
    """Return the limits of a ResourcePolicy row, by their names in accounts.core.limits."""
    numbers = {limit.value: row[column] for limit, column in COLUMNS.items() if row[column] is not None}
    return {**numbers, **dict(_slot_limits(row))}


def policy_allow_lists(row: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the allow-lists of a ResourcePolicy row, by their names in accounts.core.allow_lists."""
    return {
        kind.value: tuple(row[column]) for kind, column in ALLOW_COLUMNS.items() if row[column] is not None
    }


def limit_column(limit: str) -> str:
    """Return the field that sets a limit: max_sessions, or with a slot, max_slots.cpu."""
    kind, slot = limit_kind(limit), limit_slot(limit)
    return f"{SLOT_COLUMNS[kind]}.{slot}" if slot else COLUMNS[kind]


def _slot_limits(row: dict[str, Any]) -> Iterable[tuple[str, int]]:
    for limit, column in SLOT_COLUMNS.items():
        for slot, amount in row[column].items():
            yield limit.of_slot(slot), amount


def _is_amount(pair: tuple[str, Any]) -> bool:
    name, amount = pair
    is_whole = isinstance(amount, int) and not isinstance(amount, bool)
    return is_slot_name(name) and is_whole and 0 <= amount <= MAX_AMOUNT
