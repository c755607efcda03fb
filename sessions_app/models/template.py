"""Session templates: named launcher choices."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Domain, Project
from common import clock
from common.db.fields import NameField
from sessions_app.core.template_rules import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, Sharing

_OWN, _PROJECT = Q(owner__isnull=False), Q(project__isnull=False)
_DOMAIN = Q(domain__isnull=False)
HAS_ONE_PLACE = (
    (Q(sharing="own") & _OWN & ~_PROJECT & ~_DOMAIN)
    | (Q(sharing="project") & ~_OWN & _PROJECT & ~_DOMAIN)
    | (Q(sharing="domain") & ~_OWN & ~_PROJECT & _DOMAIN)
    | (Q(sharing="everybody") & ~_OWN & ~_PROJECT & ~_DOMAIN)
)
"""Condition that the owner columns match `sharing`."""


class SessionTemplate(models.Model):
    """Stored request for a session, without the fields of a single session.

    Belongs to a user, a project, a domain, or everybody. A template grants nothing: a session that
    uses it is checked like any other.
    """

    name = NameField(max_length=MAX_NAME_LENGTH)
    description = models.CharField(max_length=MAX_DESCRIPTION_LENGTH, blank=True)
    sharing = models.CharField(max_length=10, choices=[(each.value, each.value) for each in Sharing])
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="session_templates"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, related_name="session_templates"
    )
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="session_templates")
    body: Any = models.JSONField(help_text="As POST /api/v1/sessions/ takes it.")
    changed_by = models.CharField(max_length=254, editable=False)
    changed_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name", "pk")
        constraints = (
            models.CheckConstraint(
                condition=HAS_ONE_PLACE,
                name="template_has_one_place",
            ),
            models.UniqueConstraint(
                fields=("sharing", "owner", "project", "domain", "name"),
                name="template_name_in_place",
                nulls_distinct=False,
            ),
        )

    def __str__(self) -> str:
        return self.name
