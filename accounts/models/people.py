"""Domains, projects, users and memberships."""

from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.roles import PROJECT_ROLE_TITLES, ProjectRole, Role
from accounts.core.sign_in_requirements import SecondFactor
from accounts.core.sign_up import SignUp
from accounts.models.policy import ResourcePolicy
from common import clock
from common.db.fields import NameField

name_validator = RegexValidator(
    r"^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
    gettext_lazy(
        "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit."
    ),
)


class Domain(models.Model):
    """A tenant. Its users never learn of objects in other domains."""

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    title = NameField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    sign_up = models.CharField(
        max_length=20,
        choices=[(way.value, way.value) for way in SignUp],
        default=SignUp.CLOSED.value,
        help_text="Who may make an account of it by themselves.",
    )
    policy = models.ForeignKey(
        ResourcePolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="domains"
    )
    second_factor = models.CharField(
        max_length=20,
        choices=[(wish.value, wish.value) for wish in SecondFactor],
        default=SecondFactor.OPTIONAL.value,
        help_text="Who has to have a second factor.",
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name",)
        permissions = (("manage_domain", "Can manage members, sessions and folders of the domain"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(sign_up__in=[way.value for way in SignUp]), name="domain_sign_up_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(second_factor__in=[wish.value for wish in SecondFactor]),
                name="domain_second_factor_is_known",
            ),
        )

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def domain_id(self) -> int:
        """Id of the domain itself; attribute shared by all objects of a domain, for the audit log."""
        return self.pk


class Project(models.Model):
    """A group inside a domain that holds quota and shares folders."""

    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="projects")
    name = models.CharField(max_length=64, validators=[name_validator])
    title = NameField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    policy = models.ForeignKey(
        ResourcePolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="projects"
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    members: models.ManyToManyField["User", "Membership"] = models.ManyToManyField(
        "User", through="Membership", related_name="projects"
    )

    class Meta:
        ordering = ("domain__name", "name")
        permissions = (
            ("use_project", "Can start sessions and use shared folders in the project"),
            ("manage_project", "Can manage members, sessions and folders of the project"),
        )
        constraints = (models.UniqueConstraint(fields=("domain", "name"), name="project_name_in_domain"),)

    def __str__(self) -> str:
        return self.title or self.name


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=(username or "").lower())


class User(AbstractBaseUser, PermissionsMixin):
    """A user account. Signs in by e-mail address (stored in lower case); belongs to one domain and
    any number of its projects.

    `role` is the only source of superadmin rights; there is no second flag that could contradict
    it.
    """

    email = models.EmailField(max_length=254, unique=True)
    name = NameField(max_length=120, blank=True)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="users")
    role = models.CharField(
        max_length=20, choices=[(role.value, role.value) for role in Role], default=Role.USER.value
    )
    is_active = models.BooleanField(default=True)
    policy = models.ForeignKey(
        ResourcePolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="users"
    )
    language = models.CharField(
        max_length=10, blank=True, help_text="Of the pages; empty: as the browser asks."
    )
    must_change_password = models.BooleanField(default=False)
    allowed_networks = models.JSONField(
        default=list, blank=True, help_text="Where the account may be used from, as CIDR; empty: everywhere."
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    purged_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since then a nameless row that history refers to."
    )

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        ordering = ("email",)
        constraints = (
            models.CheckConstraint(condition=models.Q(email=Lower("email")), name="user_email_is_lower_case"),
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]), name="user_role_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(purged_at=None) | models.Q(is_active=False, policy=None),
                name="user_purged_holds_nothing",
            ),
        )

    def __str__(self) -> str:
        return self.email

    @property
    def is_superuser(self) -> bool:  # type: ignore[override]
        """True for active superadmins. Django and guardian read it before single permissions."""
        return self.is_active and self.role == Role.SUPERADMIN

    @property
    def is_monitor(self) -> bool:
        """True for active users who see everything that superadmins see, read-only."""
        return self.is_active and self.role == Role.MONITOR

    @property
    def is_domain_monitor(self) -> bool:
        """True for active users who see everything that admins of their domain see, read-only."""
        return self.is_active and self.role == Role.DOMAIN_MONITOR

    @property
    def is_staff(self) -> bool:
        """True for users who may open Django admin."""
        return self.is_superuser

    def clean(self) -> None:
        self.email = self.email.lower()

    def get_short_name(self) -> str:
        return self.name or self.email.partition("@")[0]


class Membership(models.Model):
    """A user in a project of the own domain."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=20,
        choices=[(role.value, role.value) for role in ProjectRole],
        default=ProjectRole.MEMBER.value,
    )
    is_by_rule = models.BooleanField(
        default=False,
        editable=False,
        help_text="Nobody added them: a rule of the project did, and takes them out.",
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("project", "user"), name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(is_by_rule=False) | models.Q(role=ProjectRole.MEMBER.value),
                name="membership_by_rule_is_plain",
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in ProjectRole]),
                name="membership_role_is_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"

    def clean(self) -> None:
        if self.user.domain_id != self.project.domain_id:
            raise ValidationError(
                _("{person} belongs to another domain than the project.").format(person=self.user)
            )

    @property
    def role_title(self) -> str:
        return _(PROJECT_ROLE_TITLES[ProjectRole(self.role)])
