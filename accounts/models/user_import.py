"""Imports of users from files, and the result of each row."""

from dataclasses import dataclass
from typing import ClassVar

from django.conf import settings
from django.db import models

from accounts.core.user_csv import CsvRow
from common import clock


class PeopleImportQuerySet(models.QuerySet["PeopleImport"]):
    def under_way(self) -> "PeopleImportQuerySet":
        return self.filter(finished_at=None).exclude(started_at=None)


class PeopleImport(models.Model):
    """An uploaded file of users; valid rows are imported from `started_at` on."""

    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=120)
    asked_at = models.DateTimeField(default=clock.now, editable=False)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    objects: ClassVar["models.Manager[PeopleImport]"] = PeopleImportQuerySet.as_manager()

    class Meta:
        ordering = ("-asked_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(finished_at=None) | models.Q(started_at__isnull=False),
                name="import_started_before_it_finished",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def tally(self) -> "Tally":
        """Count rows by outcome and progress. One query."""
        rows = self.lines.order_by().values_list("outcome", "is_done").annotate(count=models.Count("pk"))
        counts: dict[str, int] = {}
        done = to_do = 0
        for outcome, is_done, count in rows:
            counts[outcome] = counts.get(outcome, 0) + count
            done += count if is_done else 0
            to_do += 0 if outcome == PeopleImportLine.Outcome.REFUSED and not is_done else count
        return Tally(counts, done, to_do)


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows by outcome, rows to import (`to_do`) and how many of them are done. Rows refused at
    upload are not to do.
    """

    counts: dict[str, int]
    done: int
    to_do: int


class PeopleImportLine(models.Model):
    """One row with its planned changes; after import, with its result. `faults` is {field: sentence}."""

    class Outcome(models.TextChoices):
        NEW = "new"
        CHANGED = "changed"
        UNCHANGED = "unchanged"
        REFUSED = "refused"

    people_import = models.ForeignKey(PeopleImport, on_delete=models.CASCADE, related_name="lines")
    number = models.PositiveIntegerField()
    values = models.JSONField()
    outcome = models.CharField(max_length=10, choices=Outcome)
    changes = models.JSONField(default=list)
    faults = models.JSONField(default=dict)
    is_done = models.BooleanField(default=False)

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=("people_import", "number"), name="import_line_once"),)

    def __str__(self) -> str:
        return f"row {self.number} of {self.people_import_id}"

    @property
    def line(self) -> CsvRow:
        return CsvRow(self.number, self.values)
