"""Invitations and the mail domains whose addresses may sign up."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from accounts.core.roles import Role
from accounts.models.policy import ResourcePolicy
from common import clock


class MailDomain(models.Model):
    """Mail domain whose addresses belong to a domain; each belongs to one."""

    name = models.CharField(max_length=253, unique=True)
    domain = models.ForeignKey("accounts.Domain", on_delete=models.CASCADE, related_name="mail_domains")

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=models.Q(name=Lower("name")), name="mail_domain_is_lower_case"),
        )

    def __str__(self) -> str:
        return self.name


class Invitation(models.Model):
    """Link by which people create accounts that the inviter could create
    (`accounts.tenancy.invitations`).

    Without `inviter` it is a link that Berth mailed during sign-up. `email`, if set, restricts it
    to that address.
    """

    domain = models.ForeignKey("accounts.Domain", on_delete=models.CASCADE, related_name="invitations")
    inviter = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    email = models.EmailField(max_length=254, blank=True)
    role = models.CharField(
        max_length=20, choices=[(role.value, role.value) for role in Role], default=Role.USER.value
    )
    projects: models.ManyToManyField[Any, models.Model] = models.ManyToManyField(
        "accounts.Project", related_name="+"
    )
    policy = models.ForeignKey(
        ResourcePolicy,
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="Null: the usual one.",
    )
    code_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()
    mailed_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    uses = models.PositiveIntegerField(default=1)
    used = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(uses__gte=1) & models.Q(used__lte=models.F("uses")),
                name="invitation_within_its_uses",
            ),
            models.CheckConstraint(
                condition=models.Q(email="") | models.Q(uses=1), name="invitation_of_an_address_works_once"
            ),
            models.CheckConstraint(
                condition=models.Q(email=Lower("email")), name="invitation_email_is_lower_case"
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]), name="invitation_role_is_known"
            ),
        )

    def __str__(self) -> str:
        return self.email or f"invitation {self.pk}"
