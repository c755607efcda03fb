"""Activity and utilisation of running sessions, and warnings about their ends."""

from datetime import datetime
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy


class Interaction(models.TextChoices):
    """Source of a session's last activity."""

    TERMINAL = "terminal", gettext_lazy("Terminal")
    COMMAND = "command", gettext_lazy("Command line")
    APP = "app", gettext_lazy("App")
    PROGRAM = "program", gettext_lazy("Program that computes")
    NOTEBOOK = "notebook", gettext_lazy("Notebook kernel that computes")


class Gap(models.TextChoices):
    """Reason why a session's activity is unknown."""

    NONE = "", ""
    MACHINE = "machine", gettext_lazy("its machine does not answer")
    GATEWAY = "gateway", gettext_lazy("no gateway reports")
    USE = "use", gettext_lazy("its machine does not say whether it computes")


class SessionIdleQuerySet(models.QuerySet["SessionIdle"]):
    def record_activity(self, session_id: UUID, interaction: Interaction, now: datetime) -> None:
        """Record activity in a running session, unless a later one is recorded. One statement.

        The gateway records the traffic it carries in bulk (`gateway/activity/`).
        """
        older = Q(interacted_at=None) | Q(interacted_at__lt=now)
        self.filter(older, pk=session_id).update(interacted_at=now, interaction=interaction)


class SessionIdle(models.Model):
    """Idle facts of a running session; no row: nothing is known yet.

    Gateways write the activity, the idle enforcer all else. `measured_from`: start of gapless
    measurement of user activity.
    """

    session = models.OneToOneField(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, primary_key=True, related_name="idle"
    )
    interacted_at = models.DateTimeField(null=True)
    interaction = models.CharField(max_length=10, choices=Interaction, blank=True)
    measured_from = models.DateTimeField(null=True)
    gap = models.CharField(max_length=10, choices=Gap, blank=True, default=Gap.NONE)
    max_idle_s = models.PositiveIntegerField(null=True, help_text="As last judged.")
    use_from = models.DateTimeField(null=True, help_text="What was used before does not count.")
    low_since = models.DateTimeField(null=True)
    use = models.JSONField(default=dict, help_text="Percent by name, as last judged; null: not measured.")
    thresholds = models.JSONField(
        default=list,
        db_default=[],
        help_text="What its group and each of its policies wants, as last judged.",
    )
    use_grace_s = models.PositiveIntegerField(
        null=True, help_text="The shortest grace of its policies, as last judged."
    )
    kept_until = models.DateTimeField(null=True)
    extensions = models.PositiveIntegerField(default=0)
    warned_of = models.DateTimeField(null=True, help_text="The end that its owner was told of last.")
    last_told_at = models.DateTimeField(null=True, help_text="When, if it was for the last time.")

    objects = SessionIdleQuerySet.as_manager()

    def __str__(self) -> str:
        return f"use of {self.session_id}"


class SessionWarning(models.Model):
    """Warning about an end; `told_at` is set when the owner's notification exists."""

    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="warnings"
    )
    cause = models.CharField(max_length=12)
    ends_at = models.DateTimeField()
    mark_s = models.PositiveIntegerField()
    warned_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("session", "cause", "ends_at", "mark_s"), name="session_warned_once"
            ),
        )
        indexes = (models.Index(fields=("warned_at",), condition=Q(told_at=None), name="warning_untold"),)

    def __str__(self) -> str:
        return f"{self.cause} of {self.session_id} at {self.ends_at}"


class GatewayReport(models.Model):
    """Time of the last activity report of a gateway process."""

    process = models.CharField(max_length=40, primary_key=True)
    reported_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.process


class IdleWatch(models.Model):
    """Time of the last idle round (one row). A long pause is a gap in the measurements."""

    judged_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(pk=1), name="one_idle_watch"),)

    def __str__(self) -> str:
        return f"judged at {self.judged_at}"
