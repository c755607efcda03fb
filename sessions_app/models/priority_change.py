"""History of priority changes of waiting sessions."""

from django.db import models

from common import clock


class PriorityChange(models.Model):
    """One change of a waiting session's priority."""

    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="priority_changes"
    )
    was = models.SmallIntegerField()
    priority = models.SmallIntegerField()
    actor_label = models.CharField(max_length=254)
    is_by_owner = models.BooleanField()
    happened_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("happened_at", "id")

    def __str__(self) -> str:
        return f"{self.was} → {self.priority}"
