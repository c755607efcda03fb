"""Shares of folders with people and projects."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Project
from common import clock
from vfolders.core.permissions import OWNERSHIP, Right
from vfolders.models.folder import VFolder

RIGHTS = (*(right.value for right in Right), OWNERSHIP)


class FolderShare(models.Model):
    """A right on a folder, given to a person or to all members of a project.

    A person is invited first: until `accepted_at` the row is an open invitation, which ends at
    `answer_by`. A project needs no acceptance. The right ends at `expires_at`; None: never. The
    right OWNERSHIP is an offer to become the owner, one per folder, which never becomes a share. A
    declined, left or revoked share has no row. Triggers of the database refuse shares with another
    domain, with the folder's owner and with its own project.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="shares")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="folder_shares"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="folder_shares")
    right = models.CharField(max_length=10, choices=[(name, name) for name in RIGHTS])
    inviter = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    answer_by = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(user__isnull=False, project__isnull=True)
                | Q(user__isnull=True, project__isnull=False),
                name="share_with_user_or_project",
            ),
            models.CheckConstraint(
                condition=Q(accepted_at__isnull=False) | Q(user__isnull=False, answer_by__isnull=False),
                name="share_open_invitation_ends",
            ),
            models.CheckConstraint(
                condition=Q(right__in=[right.value for right in Right])
                | Q(right=OWNERSHIP, accepted_at=None),
                name="share_right_is_known",
            ),
            models.UniqueConstraint(
                fields=("folder", "user"), condition=~Q(right=OWNERSHIP), name="share_once_with_user"
            ),
            models.UniqueConstraint(fields=("folder", "project"), name="share_once_with_project"),
            models.UniqueConstraint(
                fields=("folder",), condition=Q(right=OWNERSHIP), name="share_one_offer_of_folder"
            ),
        )

    @property
    def is_open(self) -> bool:
        """True for an invitation or offer that nobody has answered, also after its end."""
        return self.accepted_at is None

    @property
    def is_offer(self) -> bool:
        return self.right == OWNERSHIP

    def __str__(self) -> str:
        return f"{self.folder} for {self.user or self.project}"
