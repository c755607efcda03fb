"""Arrays: batch sessions of one request, each with its own index."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Domain, Project
from common import clock
from sessions_app.core.array_spec import LONGEST_SPEC, MAX_ELEMENTS


class SessionArray(models.Model):
    """Array of sessions, inserted together with its elements.

    Neither is ever deleted; only `is_awaited` changes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=64)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="arrays")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="arrays")
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="arrays")
    spec = models.CharField(max_length=LONGEST_SPEC, help_text="Indices as requested, e.g. 1-100%10.")
    count = models.PositiveSmallIntegerField(help_text="Number of elements.")
    most_at_once = models.PositiveSmallIntegerField(
        null=True,
        help_text="Maximum number of elements that wait for an agent or run at a time; null: unlimited.",
    )
    is_awaited = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Others start after it."
    )
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(condition=Q(count__range=(1, MAX_ELEMENTS)), name="array_has_elements"),
            models.CheckConstraint(
                condition=Q(most_at_once=None) | Q(most_at_once__gte=1), name="array_lets_some_run"
            ),
        )
        indexes = (
            models.Index(fields=("owner", "-created_at"), name="array_owner"),
            models.Index(fields=("project", "-created_at"), name="array_project"),
        )

    def __str__(self) -> str:
        return self.name
