"""Resource presets: named sizes of sessions."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Domain, Project
from common import clock
from common.db.fields import NameField
from common.values.resources import ResourceSlots
from sessions_app.core.template_rules import MAX_NAME_LENGTH, Sharing
from sessions_app.models.template import HAS_ONE_PLACE


class ResourcePreset(models.Model):
    """Named size of a session: CPU, memory, accelerators in base units, and shared memory if set.

    A preset grants nothing: a session that uses it is checked like any other.
    """

    name = NameField(max_length=MAX_NAME_LENGTH)
    sharing = models.CharField(max_length=10, choices=[(each.value, each.value) for each in Sharing])
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="presets"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="presets")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="presets")
    slots: Any = models.JSONField(help_text="By slot, in base units.")
    shm_bytes = models.BigIntegerField(null=True)
    changed_by = models.CharField(max_length=254, editable=False)
    changed_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name", "pk")
        constraints = (
            models.CheckConstraint(
                condition=HAS_ONE_PLACE,
                name="preset_has_one_place",
            ),
            models.CheckConstraint(
                condition=Q(shm_bytes=None) | Q(shm_bytes__gt=0), name="preset_shm_is_some"
            ),
            models.UniqueConstraint(
                fields=("sharing", "owner", "project", "domain", "name"),
                name="preset_name_in_place",
                nulls_distinct=False,
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def amounts(self) -> ResourceSlots:
        return ResourceSlots(self.slots)
