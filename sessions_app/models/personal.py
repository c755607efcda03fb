"""Users' dotfiles and start-up scripts, and their result in each session."""

from typing import Any

from django.conf import settings
from django.db import models

from accounts.core.token_secrets import MAX_NAME_LENGTH
from common import clock
from common.db.fields import NameField
from sessions_app.core.dotfile_rules import DEFAULT_MODE, MAX_PATH_BYTES


class Written(models.Model):
    """Last writer of a row: the user, or a token of the user."""

    keypair = models.ForeignKey(
        "accounts.KeyPair", on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    token_name = models.CharField(
        max_length=MAX_NAME_LENGTH,
        blank=True,
        editable=False,
        help_text="Of the token; empty: no token wrote it.",
    )

    class Meta:
        abstract = True


class Dotfile(Written):
    """Text file that each new session of the user gets in its home directory."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="dotfiles")
    path = NameField(max_length=MAX_PATH_BYTES, help_text="From the home directory on.")
    mode = models.CharField(max_length=4, default=DEFAULT_MODE)
    content = models.TextField(blank=True)
    changed_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("path",)
        constraints = (models.UniqueConstraint(fields=("user", "path"), name="dotfile_once_a_path"),)

    def __str__(self) -> str:
        return self.path

    @property
    def size_bytes(self) -> int:
        return len(self.content.encode())


class StartupScript(Written):
    """Script that runs in each new session of the user: before a command, in parallel with apps."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="startup_script"
    )
    content = models.TextField()
    changed_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return f"start-up script of {self.user_id}"


class PersonalSetup(models.Model):
    """Home setup of a session and its result (`dotfiles/delivery.py`). No row if there was none.

    `skipped` is a list of {"path", "why"} with codes of `core.home_setup.Skip`.
    """

    class Script(models.TextChoices):
        NONE = "none"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        TIMED_OUT = "timed_out"
        UNKNOWN = "unknown"

    session = models.OneToOneField(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, primary_key=True, related_name="setup"
    )
    script = models.CharField(max_length=10, choices=Script)
    files = models.PositiveSmallIntegerField(help_text="That were to be written.")
    skipped: Any = models.JSONField(default=list)
    exit_code = models.IntegerField(null=True)
    took_s = models.PositiveIntegerField(null=True)
    begun_at = models.DateTimeField(default=clock.now)
    is_over = models.BooleanField(default=False, help_text="Nothing more will become of it.")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(script__in=["none", "running", "done", "failed", "timed_out", "unknown"]),
                name="setup_script_is_known",
            ),
        )
        indexes = (
            models.Index(fields=("begun_at",), condition=models.Q(is_over=False), name="setup_under_way"),
        )

    def __str__(self) -> str:
        return f"setup of {self.session_id}"
