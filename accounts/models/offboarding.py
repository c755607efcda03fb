"""Offboarding of a user: decisions and progress."""

from django.db import models

from accounts.models.people import User
from common import clock


class OffBoarding(models.Model):
    """Offboarding of a user: the resources to resolve and the result of each
    (`accounts.tenancy.offboarding`).

    `items` is a list of {"step", "id", "name", "is_done", "text", "arguments"}; the last two are a
    stored message.
    """

    class Folders(models.TextChoices):
        KEEP = "keep"
        HAND_OVER = "hand_over"
        DELETE = "delete"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="offboardings")
    asked_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    asked_at = models.DateTimeField(default=clock.now, editable=False)
    folders = models.CharField(max_length=20, choices=Folders)
    heir = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    items = models.JSONField(default=list)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-asked_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("user",), condition=models.Q(finished_at=None), name="one_offboarding_at_a_time"
            ),
        )

    def __str__(self) -> str:
        return f"off-boarding of {self.user}"
