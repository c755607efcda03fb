"""Callbacks of sessions: URL, signing secret and deliveries."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from common import clock
from sessions_app.core.callbacks import MAX_URL_LENGTH, CallbackEvent, Fault


class CallbackSecret(models.Model):
    """Salt of the secret that signs a user's callbacks.

    The secret is derived from `salt` and the installation's secret and is not stored
    (`callbacks/signing_secret.py`).
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="callback_secret"
    )
    salt = models.CharField(max_length=64, editable=False)
    made_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"callback secret of {self.user_id}"


class SessionCallback(models.Model):
    """URL that receives the events of a session. Events are rows of its history."""

    session = models.OneToOneField(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, primary_key=True, related_name="callback"
    )
    url = models.CharField(max_length=MAX_URL_LENGTH)
    host = models.CharField(
        max_length=MAX_URL_LENGTH, help_text="That of the address: few at once go to one."
    )
    is_open = models.BooleanField(default=True, help_text="More is to be told, or may be.")

    class Meta:
        indexes = (models.Index(fields=("session",), condition=Q(is_open=True), name="callback_open"),)

    def __str__(self) -> str:
        return f"callback of {self.session_id}"


class CallbackDelivery(models.Model):
    """Delivery of one history row. Deliveries of a session are sent one by one, in order."""

    class State(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        GIVEN_UP = "given_up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    callback = models.ForeignKey(SessionCallback, on_delete=models.CASCADE, related_name="deliveries")
    transition = models.OneToOneField(
        "sessions_app.SessionTransition", on_delete=models.CASCADE, related_name="delivery"
    )
    news = models.CharField(max_length=20, choices=[(each.value, each.value) for each in CallbackEvent])
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    made_at = models.DateTimeField(default=clock.now)
    due_at = models.DateTimeField(default=clock.now)
    tried_at = models.DateTimeField(null=True)
    answer = models.PositiveSmallIntegerField(
        null=True, help_text="The status of HTTP; null: none was heard."
    )
    fault = models.CharField(max_length=10, blank=True, default=Fault.NONE.value)

    class Meta:
        ordering = ("callback_id", "transition_id")
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "delivered", "given_up"]), name="delivery_state_is_known"
            ),
        )
        indexes = (
            models.Index(
                fields=("callback", "transition"), condition=Q(state="waiting"), name="delivery_waiting"
            ),
            models.Index(fields=("tried_at",), name="delivery_tried"),
        )

    def __str__(self) -> str:
        return f"{self.news} of {self.callback_id}"
