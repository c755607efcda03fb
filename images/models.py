"""Tables of registries and of images that sessions can be started from."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q

from accounts.models import name_validator
from common import clock
from common.values.encryption import decrypt, encrypt
from images.core.labels import AppHint
from images.core.references import MAX_REFERENCE

PASSWORDS = "passwords of registries"


class RegistryKind(models.TextChoices):
    """Type of a registry, which determines its sign-in and listing API."""

    PLAIN = "plain", "Registry (v2)"
    DOCKER_HUB = "docker-hub", "Docker Hub"
    HARBOR = "harbor", "Harbor"
    GITLAB = "gitlab", "GitLab"
    GITHUB = "github", "GitHub"
    ECR = "ecr", "Amazon ECR"
    NGC = "ngc", "NVIDIA NGC"


class Registry(models.Model):
    """A source of images. `host` is the part before the first slash of their references.

    Machines pull as `username`, if there is one; `password` is encrypted.
    """

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    host = models.CharField(max_length=255, unique=True)
    url = models.URLField(max_length=500, unique=True)
    kind = models.CharField(max_length=20, choices=RegistryKind.choices, default=RegistryKind.PLAIN)
    is_enabled = models.BooleanField(default=True)
    username = models.CharField(max_length=255, blank=True, default="", db_default="")
    password = models.TextField(blank=True, default="", db_default="", editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "registries"
        constraints = (
            models.CheckConstraint(condition=Q(kind__in=RegistryKind.values), name="registry_kind_is_known"),
        )

    def __str__(self) -> str:
        return self.name

    def set_password(self, password: str) -> None:
        """Set the password or token of `username`, without saving it."""
        self.password = encrypt(PASSWORDS, password) if password else ""

    @property
    def sign_in(self) -> tuple[str, str] | None:
        """Return user name and password for pulls; None if machines pull without. Raises
        Undecipherable.
        """
        if not self.username:
            return None
        return self.username, decrypt(PASSWORDS, self.password) if self.password else ""


class ImageQuerySet(models.QuerySet["ContainerImage"]):
    def enabled(self) -> Self:
        """Images that users may start; those of a disabled registry are excluded."""
        return self.filter(is_enabled=True).exclude(registry__is_enabled=False)


class ContainerImage(models.Model):
    """One reference that sessions may run. An image without a registry was built or loaded on the
    machines.

    `apps` is a list of images.core.labels.AppHint.to_json(), `min_slots` holds amounts in base
    units; both were validated when they were read from the labels. `accelerators` are the only device
    slots that the image can use, none: any; `min_cuda` is the CUDA that it needs, as 12040 for 12.4.
    """

    reference = models.CharField(max_length=MAX_REFERENCE, unique=True)
    registry = models.ForeignKey(
        Registry, on_delete=models.PROTECT, null=True, blank=True, related_name="images"
    )
    title = models.CharField(max_length=60, blank=True)
    description = models.CharField(max_length=500, blank=True)
    icon = models.CharField(max_length=40, blank=True)
    apps = models.JSONField(default=list, blank=True)
    min_slots = models.JSONField(default=dict, blank=True)
    accelerators = models.JSONField(default=list, db_default=[], blank=True)
    min_cuda = models.PositiveIntegerField(default=0, db_default=0)
    bears_readonly_root = models.BooleanField(
        default=False,
        help_text="The programs of the image write only to the home directory, /tmp and /var/tmp.",
    )
    architecture = models.CharField(max_length=20, blank=True)
    digest = models.CharField(max_length=80, blank=True)
    size_bytes = models.BigIntegerField(default=0)
    is_enabled = models.BooleanField(default=True)
    is_pinned = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Machines keep the image, however long nobody uses it.",
    )
    built_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects: ClassVar = ImageQuerySet.as_manager()

    class Meta:
        ordering = ("title", "-created_at", "reference")
        constraints = (
            models.CheckConstraint(condition=Q(size_bytes__gte=0), name="image_size_is_not_negative"),
        )

    def __str__(self) -> str:
        return self.title or self.reference

    @property
    def app_hints(self) -> tuple[AppHint, ...]:
        """`apps` as AppHint values."""
        return tuple(AppHint(**{**app, "command": tuple(app.get("command", ()))}) for app in self.apps)
