"""After which other sessions one may start."""

from django.db import models
from django.db.models import F, Q

from sessions_app.queueing import When


class SessionDependency(models.Model):
    """`session` starts after `after` has ended, in the way that `when` says. Given when the session is asked for, never
    changed: so there are no circles."""

    session = models.ForeignKey("ComputeSession", on_delete=models.CASCADE, related_name="dependencies")
    after = models.ForeignKey("ComputeSession", on_delete=models.PROTECT, related_name="dependents")
    when = models.CharField(max_length=8, choices=[(when.value, when.value) for when in When])

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=("session", "after"), name="dependency_once"),
            models.CheckConstraint(condition=~Q(session=F("after")), name="dependency_on_another"),
        )

    def __str__(self) -> str:
        return f"{self.session_id} after {self.after_id}"
