"""Access to apps of sessions: assigned ports, one-time codes, and app logins."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import BrowserLogin, KeyPair
from common import clock


class AssignedPort(models.Model):
    """Port of the portal's address assigned to one app of one session.

    For browsers that cannot resolve the app's host name. The row outlives its session: the port is
    not reassigned for `gateway.proxy.app_ports.REST_S`, because a tab of the earlier app may still
    be open.
    """

    port = models.PositiveIntegerField(unique=True)
    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="assigned_ports"
    )
    app = models.CharField(max_length=20)
    opened_at = models.DateTimeField(default=clock.now)

    class Meta:
        db_table = "sessions_app_appdoor"
        constraints = (
            models.UniqueConstraint(fields=("session", "app"), name="one_door_for_an_app"),
            models.CheckConstraint(condition=Q(port__gte=1, port__lte=65535), name="door_port_is_a_port"),
        )

    def __str__(self) -> str:
        return f"{self.app} at {self.port}"


class AppGrant(models.Model):
    """One-time code that turns a portal sign-in into a cookie for one app's host or port.

    Valid for seconds.
    """

    code_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    login_key = models.CharField(max_length=40)
    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="app_grants"
    )
    app = models.CharField(max_length=20)
    app_port = models.PositiveIntegerField(default=0, help_text="0: the app's own host.")
    state_hash = models.CharField(max_length=64)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "sessions_app_appticket"

    def __str__(self) -> str:
        return f"grant of {self.user_id} to {self.app}"


class AppLogin(models.Model):
    """Access to one app at one host or port, by cookie or program token.

    A cookie comes from a portal sign-in, a token from a keypair; the access ends with its source.
    """

    secret_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    login_key = models.CharField(max_length=40, blank=True, db_index=True)
    # No column and no constraint, because the browser login may be deleted first.
    browser = models.ForeignObject(
        BrowserLogin,
        on_delete=models.DO_NOTHING,
        from_fields=["login_key"],
        to_fields=["session_key"],
        null=True,
        related_name="+",
    )
    keypair = models.ForeignKey(KeyPair, on_delete=models.CASCADE, null=True, related_name="+")
    keypair_secret = models.CharField(max_length=64, blank=True, default="")  # hash of the secret
    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, related_name="app_logins"
    )
    app = models.CharField(max_length=20)
    app_port = models.PositiveIntegerField(default=0, help_text="0: the app's own host.")
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(null=True, help_text="Of a program's token.")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=(~Q(login_key="") & Q(keypair=None)) | (Q(login_key="") & Q(keypair__isnull=False)),
                name="app_login_came_from_one_thing",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user_id} in {self.app}"
