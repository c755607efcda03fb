"""Tables of notifications and announcements."""

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common import clock
from common.pages.status_styles import Tone


class Notification(models.Model):
    """Notification of a user; `code` and `arguments` give its text (notifications.catalogue)."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications"
    )
    code = models.CharField(max_length=40)
    arguments = models.JSONField(default=dict)
    session_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("person", "-created_at", "-id"), name="notification_person"),
            models.Index(fields=("person",), condition=Q(read_at=None), name="notification_unread"),
        )

    def __str__(self) -> str:
        return f"{self.code} for {self.person_id}"


class NotificationMail(models.Model):
    """Outbox row of a notification that is also mailed; deleted once a mail server accepts it, or
    on permanent failure.
    """

    notification = models.OneToOneField(
        Notification, on_delete=models.CASCADE, primary_key=True, related_name="mail"
    )
    due_at = models.DateTimeField(default=clock.now, db_index=True)

    def __str__(self) -> str:
        return f"mail of {self.notification_id}"


class ToldNotice(models.Model):
    """Record that a user was notified of an event, or had muted it; prevents repetition, even after
    the notification itself is deleted.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    happening = models.CharField(max_length=120)
    again_until = models.DateTimeField(db_index=True, help_text="Nobody comes to tell it again later.")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("person", "happening"), name="told_once"),)
        indexes = (models.Index(fields=("happening",), name="told_happening"),)

    def __str__(self) -> str:
        return f"{self.happening} for {self.person_id}"


class NotificationChoice(models.Model):
    """Notification kinds that a user muted, and kinds to be
    mailed: members of `portal.notifications.catalogue.Kind`.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    muted = ArrayField(models.CharField(max_length=20), default=list)
    mailed = ArrayField(models.CharField(max_length=20), default=list)

    def __str__(self) -> str:
        return f"choice of {self.person_id}"


class Announcement(models.Model):
    """Message of superadmins at the top of every page, with start and end."""

    TONES: ClassVar[list[tuple[str, str | Promise]]] = [
        (Tone.BUSY.value, gettext_lazy("News")),
        (Tone.GOOD.value, gettext_lazy("Good news")),
        (Tone.WARN.value, gettext_lazy("Warning")),
        (Tone.BAD.value, gettext_lazy("Alarm")),
    ]

    text = models.CharField(max_length=500)
    tone = models.CharField(max_length=10, choices=TONES, default=Tone.BUSY.value)
    starts_at = models.DateTimeField(default=clock.now, help_text=gettext_lazy("UTC."))
    ends_at = models.DateTimeField(
        null=True, blank=True, help_text=gettext_lazy("UTC; empty: until it is deleted.")
    )
    is_dismissible = models.BooleanField(
        default=True, help_text=gettext_lazy("People can hide it for themselves.")
    )

    class Meta:
        ordering = ("-starts_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gt=F("starts_at")),
                name="announcement_ends_after_start",
            ),
        )

    def __str__(self) -> str:
        return self.text[:60]

    def clean(self) -> None:
        if self.ends_at is not None and self.ends_at <= self.starts_at:
            raise ValidationError({"ends_at": _("It must end after it starts.")})
