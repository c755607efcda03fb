"""Files of people: what was read, and what became of each row."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from accounts.people_file import Line
from common import clock


class PeopleImportQuerySet(models.QuerySet["PeopleImport"]):
    def under_way(self) -> "PeopleImportQuerySet":
        return self.filter(finished_at=None).exclude(started_at=None)


class PeopleImport(models.Model):
    """A file of people that was read; from `started_at` on its good rows are taken in (`accounts.importing`)."""

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


class PeopleImportLine(models.Model):
    """One row, and what it would do; once it is done, what came of it. `faults` are {field: sentence}."""

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
    def line(self) -> Line:
        return Line(self.number, self.values)
