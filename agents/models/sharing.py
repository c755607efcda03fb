"""Table of the rules by which devices are shared."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.core.isolation import OFFERED, Isolation, offered_isolation
from agents.core.isolation import SharingMode as Mode
from agents.models.accelerator import MODEL_LENGTH
from common import clock
from common.values.resources import MILLI

REFERENCE_LENGTH = 255


class SharingMode(models.TextChoices):
    FORBIDDEN = Mode.FORBIDDEN.value, gettext_lazy("Whole devices only")
    SLICE = Mode.SLICE.value, gettext_lazy("Time slicing")
    MEMORY = Mode.MEMORY.value, gettext_lazy("Memory limit of the driver")
    MPS = Mode.MPS.value, gettext_lazy("CUDA MPS")
    HOOK = Mode.HOOK.value, gettext_lazy("CUDA hook library")


class SharingRule(models.Model):
    """Rule by which devices of one model, or of all models (""), of a group are shared among sessions
    that ask for a part. The rule of a model precedes that of all models; without any, time slicing.

    `smallest_share` is in milli-devices; with MPS all parts have this size, because its limits are those
    of the device's daemon. `hook_image` holds the hook library (`libvgpu.so`), which
    Berth does not ship. `mig_on_demand`: partitions may be made on an empty device for a session that
    asks for a profile of which none is free.
    """

    group = models.ForeignKey("agents.ResourceGroup", on_delete=models.CASCADE, related_name="sharing_rules")
    model = models.CharField(gettext_lazy("Model"), max_length=MODEL_LENGTH, blank=True)
    mode = models.CharField(
        gettext_lazy("Mode"), max_length=20, choices=SharingMode.choices, default=SharingMode.SLICE
    )
    smallest_share = models.PositiveSmallIntegerField(
        gettext_lazy("Smallest part"),
        default=1,
        db_default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MILLI - 1)],
        help_text=gettext_lazy("Smallest part of a device that a session may request, in thousandths."),
    )
    hook_image = models.CharField(
        gettext_lazy("Image of the hook library"),
        max_length=REFERENCE_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text=gettext_lazy("Image that contains the library; for the mode “CUDA hook library” only."),
    )
    mig_on_demand = models.BooleanField(
        gettext_lazy("MIG on demand"),
        default=False,
        db_default=False,
        help_text=gettext_lazy("Berth may split an empty device when a session asks for a MIG profile."),
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("group_id", "model")
        constraints = (
            models.UniqueConstraint(
                fields=("group", "model"),
                name="sharing_rule_once",
                violation_error_message=gettext_lazy("The group has a sharing rule for this model already."),
            ),
            models.CheckConstraint(
                condition=Q(mode__in=SharingMode.values), name="sharing_rule_mode_is_known"
            ),
            models.CheckConstraint(
                condition=Q(smallest_share__gt=0, smallest_share__lt=MILLI),
                name="sharing_rule_share_is_a_part",
            ),
            models.CheckConstraint(
                condition=Q(mode=SharingMode.HOOK) ^ Q(hook_image=""),
                name="sharing_rule_names_an_image_for_the_hook",
            ),
        )

    def __str__(self) -> str:
        return f"{self.mode} for {self.model or 'all models'} of {self.group_id}"

    @property
    def isolation(self) -> Isolation:
        """Isolation of a part, if the mechanism works on the machine."""
        return OFFERED[Mode(self.mode)]

    def isolation_on(self, api_version: int) -> Isolation:
        """Return the isolation of a part where the driver can run this version of CUDA; 0: unknown."""
        return offered_isolation(Mode(self.mode), api_version)

    def clean(self) -> None:
        """Raises ValidationError."""
        self.model, self.hook_image = self.model.strip(), self.hook_image.strip()
        if self.mode == SharingMode.HOOK and not self.hook_image:
            raise ValidationError({"hook_image": _("Name the image that contains the hook library.")})
        if self.mode != SharingMode.HOOK and self.hook_image:
            raise ValidationError(
                {"hook_image": _("Only the mode “CUDA hook library” uses an image. Leave it empty.")}
            )
