"""Dependencies between sessions."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Q

from sessions_app.core.queue_options import When
from sessions_app.models.array import SessionArray

if TYPE_CHECKING:
    from sessions_app.models.session import ComputeSession


class SessionDependency(models.Model):
    """Dependency of `session` on the end of `after`, or of all elements of `after_array`.

    `when` is the required outcome. Set when the session is requested and never changed, so there
    are no cycles.
    """

    session = models.ForeignKey("ComputeSession", on_delete=models.CASCADE, related_name="dependencies")
    after = models.ForeignKey(
        "ComputeSession", on_delete=models.PROTECT, null=True, related_name="dependents"
    )
    after_array = models.ForeignKey(
        SessionArray, on_delete=models.PROTECT, null=True, related_name="dependents"
    )
    when = models.CharField(max_length=8, choices=[(when.value, when.value) for when in When])

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=("session", "after"), name="dependency_once"),
            models.UniqueConstraint(fields=("session", "after_array"), name="dependency_on_array_once"),
            models.CheckConstraint(condition=~Q(session=F("after")), name="dependency_on_another"),
            models.CheckConstraint(
                condition=Q(after=None, after_array__isnull=False) | Q(after__isnull=False, after_array=None),
                name="dependency_on_one",
            ),
        )

    def __str__(self) -> str:
        return f"{self.session_id} after {self.after_id or self.after_array_id}"

    @property
    def awaited(self) -> "ComputeSession | SessionArray":
        """Session or array that `session` waits for."""
        found = self.after or self.after_array
        assert found is not None  # dependency_on_one
        return found
