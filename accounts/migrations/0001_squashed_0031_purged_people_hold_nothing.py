"""Create the tables, functions and triggers of the app as the migrations that this one replaces
leave them, and the default policy. Later ones depend on migrations of allauth, which need these
tables: hence it does not replace them.
"""

from decimal import Decimal
from pathlib import Path

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import common.clock
import common.db.fields

SQL = Path(__file__).with_name("sql")


def create_default_policy(apps, schema_editor):
    policies = apps.get_model("accounts", "ResourcePolicy").objects
    policies.create(name="default", is_default=True, max_sessions=200, max_keypairs=50)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.CreateModel(
            name="AttemptCount",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("spent_until", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="Domain",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
                                "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("title", common.db.fields.NameField(blank=True, max_length=120)),
                ("is_active", models.BooleanField(default=True)),
                (
                    "sign_up",
                    models.CharField(
                        choices=[("closed", "closed"), ("invitation", "invitation"), ("open", "open")],
                        default="closed",
                        help_text="Who may make an account of it by themselves.",
                        max_length=20,
                    ),
                ),
                (
                    "second_factor",
                    models.CharField(
                        choices=[("optional", "optional"), ("admins", "admins"), ("everybody", "everybody")],
                        default="optional",
                        help_text="Who has to have a second factor.",
                        max_length=20,
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("name",),
                "permissions": (("manage_domain", "Can manage members, sessions and folders of the domain"),),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("sign_up__in", ["closed", "invitation", "open"])),
                        name="domain_sign_up_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("second_factor__in", ["optional", "admins", "everybody"])),
                        name="domain_second_factor_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EndedLogin",
            fields=[
                ("key_hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("allowed", models.PositiveIntegerField(help_text="Browsers at once.")),
                ("ended_at", models.DateTimeField(db_index=True, default=common.clock.now)),
            ],
        ),
        migrations.CreateModel(
            name="LimitUse",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "level",
                        "scope_id",
                        "resource",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "level",
                    models.CharField(
                        choices=[
                            ("domain", "domain"),
                            ("project", "project"),
                            ("user", "user"),
                            ("keypair", "keypair"),
                        ],
                        max_length=10,
                    ),
                ),
                ("scope_id", models.BigIntegerField()),
                ("resource", models.CharField(max_length=48)),
                ("used", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="ResourcePolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=64)),
                (
                    "domain",
                    models.ForeignKey(
                        blank=True,
                        help_text="Empty: of the whole installation.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="own_policies",
                        to="accounts.domain",
                    ),
                ),
                ("is_default", models.BooleanField(default=False, help_text="Default for new people.")),
                ("max_slots", models.JSONField(blank=True, default=dict)),
                ("max_sessions", models.PositiveIntegerField(blank=True, null=True)),
                ("max_pending_sessions", models.PositiveIntegerField(blank=True, null=True)),
                ("max_pending_slots", models.JSONField(blank=True, default=dict)),
                ("max_containers", models.PositiveIntegerField(blank=True, null=True)),
                ("max_lifetime_s", models.PositiveIntegerField(blank=True, null=True)),
                ("max_idle_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "min_cpu_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "min_mem_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "min_device_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "min_device_mem_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "use_rule",
                    models.CharField(
                        choices=[("all", "all of them are below"), ("any", "any of them is below")],
                        db_default="any",
                        default="any",
                        max_length=3,
                    ),
                ),
                (
                    "use_window_s",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(600),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                    ),
                ),
                (
                    "use_grace_s",
                    models.PositiveIntegerField(
                        blank=True, null=True, validators=[django.core.validators.MinValueValidator(600)]
                    ),
                ),
                ("max_extensions", models.PositiveIntegerField(blank=True, null=True)),
                ("max_extension_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "max_priority",
                    models.SmallIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                ("max_folders", models.PositiveIntegerField(blank=True, null=True)),
                ("max_folder_bytes", models.BigIntegerField(blank=True, null=True)),
                ("max_keypairs", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "max_requests",
                    models.PositiveIntegerField(
                        blank=True, help_text="Of one API token, in a minute.", null=True
                    ),
                ),
                (
                    "max_browsers",
                    models.PositiveIntegerField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(
                                1, "Allow at least one login, or close the account instead."
                            )
                        ],
                    ),
                ),
                (
                    "allowed_registries",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255),
                        blank=True,
                        help_text="Places that images may come from.",
                        null=True,
                        size=None,
                    ),
                ),
                (
                    "allowed_images",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255),
                        blank=True,
                        help_text="Names of images that may be used; * stands for any characters.",
                        null=True,
                        size=None,
                    ),
                ),
                (
                    "allowed_storage_hosts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255),
                        blank=True,
                        help_text="Where new folders may be.",
                        null=True,
                        size=None,
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "resource policies",
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("domain", None)),
                        fields=("name",),
                        name="policy_name_of_installation",
                    ),
                    models.UniqueConstraint(fields=("domain", "name"), name="policy_name_in_domain"),
                    models.CheckConstraint(
                        condition=models.Q(("is_default", False), ("domain", None), _connector="OR"),
                        name="policy_default_is_of_installation",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("is_default",),
                        name="policy_one_default",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_folder_bytes", None), ("max_folder_bytes__gte", 0), _connector="OR"
                        ),
                        name="policy_folder_bytes_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_lifetime_s", None), ("max_lifetime_s__gt", 0), _connector="OR"
                        ),
                        name="policy_lifetime_is_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("max_priority", None), ("max_priority__range", (0, 100)), _connector="OR"
                        ),
                        name="policy_priority_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_idle_s", None), ("max_idle_s__gt", 0), _connector="OR"),
                        name="policy_idle_is_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("min_cpu_percent", None),
                                models.Q(("min_cpu_percent__gte", 1), ("min_cpu_percent__lte", 100)),
                                _connector="OR",
                            ),
                            models.Q(
                                ("min_mem_percent", None),
                                models.Q(("min_mem_percent__gte", 1), ("min_mem_percent__lte", 100)),
                                _connector="OR",
                            ),
                            models.Q(
                                ("min_device_percent", None),
                                models.Q(("min_device_percent__gte", 1), ("min_device_percent__lte", 100)),
                                _connector="OR",
                            ),
                            models.Q(
                                ("min_device_mem_percent", None),
                                models.Q(
                                    ("min_device_mem_percent__gte", 1), ("min_device_mem_percent__lte", 100)
                                ),
                                _connector="OR",
                            ),
                        ),
                        name="policy_least_use_is_percent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("use_rule__in", ["all", "any"])), name="policy_use_rule_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("use_window_s", None),
                                models.Q(("use_window_s__gte", 600), ("use_window_s__lte", 86400)),
                                _connector="OR",
                            ),
                            models.Q(("use_grace_s", None), ("use_grace_s__gte", 600), _connector="OR"),
                        ),
                        name="policy_least_use_takes_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("max_browsers", None), ("max_browsers__gt", 0), _connector="OR"),
                        name="policy_browsers_let_in",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="domain",
            name="policy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="domains",
                to="accounts.resourcepolicy",
            ),
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                ("email", models.EmailField(max_length=254, unique=True)),
                ("name", common.db.fields.NameField(blank=True, max_length=120)),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="users",
                        to="accounts.domain",
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("user", "user"),
                            ("domain_monitor", "domain_monitor"),
                            ("domain_admin", "domain_admin"),
                            ("monitor", "monitor"),
                            ("superadmin", "superadmin"),
                        ],
                        default="user",
                        max_length=20,
                    ),
                ),
                ("is_active", models.BooleanField(default=True)),
                (
                    "policy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="users",
                        to="accounts.resourcepolicy",
                    ),
                ),
                (
                    "language",
                    models.CharField(
                        blank=True, help_text="Of the pages; empty: as the browser asks.", max_length=10
                    ),
                ),
                ("must_change_password", models.BooleanField(default=False)),
                (
                    "allowed_networks",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="Where the account may be used from, as CIDR; empty: everywhere.",
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                (
                    "purged_at",
                    models.DateTimeField(
                        blank=True,
                        editable=False,
                        help_text="Since then a nameless row that history refers to.",
                        null=True,
                    ),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "ordering": ("email",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("email", django.db.models.functions.text.Lower("email"))),
                        name="user_email_is_lower_case",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("role__in", ["user", "domain_monitor", "domain_admin", "monitor", "superadmin"])
                        ),
                        name="user_role_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("purged_at", None),
                            models.Q(("is_active", False), ("policy", None)),
                            _connector="OR",
                        ),
                        name="user_purged_holds_nothing",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BrowserLogin",
            fields=[
                (
                    "session_key",
                    models.CharField(
                        max_length=40, primary_key=True, serialize=False, verbose_name="session key"
                    ),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="browser_logins",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("ip", models.CharField(blank=True, help_text="Where it was signed in from.", max_length=45)),
                ("user_agent", models.CharField(blank=True, max_length=200)),
                ("signed_in_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
            ],
            options={"verbose_name": "session", "verbose_name_plural": "sessions", "abstract": False},
        ),
        migrations.CreateModel(
            name="DaySlots",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("project_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("slot_name", models.CharField(max_length=32)),
                ("held", models.DecimalField(decimal_places=0, max_digits=40)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["project_id", "day"], name="day_slots_project"),
                    models.Index(fields=["user_id", "day"], name="day_slots_user"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project_id", "user_id", "slot_name", "day"), name="day_slots_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="projects",
                        to="accounts.domain",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
                                "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("title", common.db.fields.NameField(blank=True, max_length=120)),
                ("is_active", models.BooleanField(default=True)),
                (
                    "policy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="projects",
                        to="accounts.resourcepolicy",
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("domain__name", "name"),
                "permissions": (
                    ("use_project", "Can start sessions and use shared folders in the project"),
                    ("manage_project", "Can manage members, sessions and folders of the project"),
                ),
                "constraints": [
                    models.UniqueConstraint(fields=("domain", "name"), name="project_name_in_domain")
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="accounts.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("member", "member"), ("admin", "admin")], default="member", max_length=20
                    ),
                ),
                (
                    "is_by_rule",
                    models.BooleanField(
                        default=False,
                        editable=False,
                        help_text="Nobody added them: a rule of the project did, and takes them out.",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "user"), name="membership_once"),
                    models.CheckConstraint(
                        condition=models.Q(("is_by_rule", False), ("role", "member"), _connector="OR"),
                        name="membership_by_rule_is_plain",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["member", "admin"])), name="membership_role_is_known"
                    ),
                ]
            },
        ),
        migrations.AddField(
            model_name="project",
            name="members",
            field=models.ManyToManyField(
                related_name="projects", through="accounts.Membership", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.CreateModel(
            name="PeopleImport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("asked_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-asked_at", "-id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("finished_at", None), ("started_at__isnull", False), _connector="OR"
                        ),
                        name="import_started_before_it_finished",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PeopleImportLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "people_import",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="accounts.peopleimport",
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("values", models.JSONField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("new", "New"),
                            ("changed", "Changed"),
                            ("unchanged", "Unchanged"),
                            ("refused", "Refused"),
                        ],
                        max_length=10,
                    ),
                ),
                ("changes", models.JSONField(default=list)),
                ("faults", models.JSONField(default=dict)),
                ("is_done", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ("number",),
                "constraints": [
                    models.UniqueConstraint(fields=("people_import", "number"), name="import_line_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Price",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slot_name", models.CharField(max_length=32)),
                ("since", models.DateField()),
                ("per_hour", models.DecimalField(decimal_places=6, max_digits=14)),
            ],
            options={
                "ordering": ("slot_name", "-since"),
                "constraints": [
                    models.UniqueConstraint(fields=("slot_name", "since"), name="price_once_a_day"),
                    models.CheckConstraint(
                        condition=models.Q(("per_hour__gte", 0)), name="price_is_not_negative"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MembershipRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rules",
                        to="accounts.project",
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("all", "all"), ("mail", "mail"), ("group", "group")], max_length=10
                    ),
                ),
                ("value", common.db.fields.NameField(blank=True, max_length=300)),
            ],
            options={
                "ordering": ("kind", "value"),
                "constraints": [
                    models.UniqueConstraint(fields=("project", "kind", "value"), name="membership_rule_once"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["all", "mail", "group"])),
                        name="membership_rule_kind_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "all"), ("value", "")),
                            models.Q(
                                models.Q(("kind", "all"), _negated=True),
                                models.Q(("value", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="membership_rule_says_whom",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="accounts.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "unit",
                    models.CharField(
                        choices=[("money", "money"), ("device_hours", "device_hours")], max_length=16
                    ),
                ),
                ("amount", models.DecimalField(decimal_places=2, max_digits=14)),
                (
                    "period",
                    models.CharField(
                        choices=[("month", "month"), ("quarter", "quarter"), ("term", "term")], max_length=8
                    ),
                ),
                ("starts_on", models.DateField(blank=True, null=True)),
                ("ends_on", models.DateField(blank=True, null=True)),
                ("warn_percent", models.PositiveSmallIntegerField(default=80)),
                (
                    "is_hard",
                    models.BooleanField(
                        default=False, help_text="Used up, it refuses new sessions; else it only warns."
                    ),
                ),
                ("is_central", models.BooleanField(default=False, editable=False)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("project", None), ("user__isnull", False)),
                            models.Q(("project__isnull", False), ("user", None)),
                            _connector="OR",
                        ),
                        name="budget_has_one_owner",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gte", Decimal("0"))), name="budget_is_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("warn_percent__gte", 1), ("warn_percent__lte", 100)),
                        name="budget_warns_in_percent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ends_on__gte", models.F("starts_on")),
                                ("period", "term"),
                                ("starts_on__isnull", False),
                            ),
                            models.Q(
                                models.Q(("period", "term"), _negated=True),
                                ("ends_on", None),
                                ("starts_on", None),
                            ),
                            _connector="OR",
                        ),
                        name="budget_term_has_days",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeyPair",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="keypairs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=60)),
                ("access_key", models.CharField(max_length=24, unique=True)),
                ("secret_hash", models.CharField(max_length=64)),
                ("old_secret_hash", models.CharField(blank=True, default="", max_length=64)),
                (
                    "old_secret_until",
                    models.DateTimeField(
                        help_text="So long the secret before the last rotation works.", null=True
                    ),
                ),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20),
                        help_text="common.token_scopes.TokenScope each.",
                        size=None,
                    ),
                ),
                ("is_active", models.BooleanField(default=True)),
                (
                    "policy",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="keypairs",
                        to="accounts.resourcepolicy",
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_ip", models.GenericIPAddressField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("scopes__contained_by", ["read", "sessions", "folders", "admin"]),
                            ("scopes__len__gt", 0),
                        ),
                        name="keypair_scopes_are_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("old_secret_hash", ""), ("old_secret_until", None)),
                            models.Q(
                                models.Q(("old_secret_hash", ""), _negated=True),
                                ("old_secret_until__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="keypair_old_secret_has_an_end",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="invitations",
                        to="accounts.domain",
                    ),
                ),
                (
                    "inviter",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("user", "user"),
                            ("domain_monitor", "domain_monitor"),
                            ("domain_admin", "domain_admin"),
                            ("monitor", "monitor"),
                            ("superadmin", "superadmin"),
                        ],
                        default="user",
                        max_length=20,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        help_text="Null: the usual one.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.resourcepolicy",
                    ),
                ),
                ("code_hash", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("expires_at", models.DateTimeField()),
                ("mailed_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("uses", models.PositiveIntegerField(default=1)),
                ("used", models.PositiveIntegerField(default=0)),
                ("projects", models.ManyToManyField(related_name="+", to="accounts.project")),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("uses__gte", 1), ("used__lte", models.F("uses"))),
                        name="invitation_within_its_uses",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("email", ""), ("uses", 1), _connector="OR"),
                        name="invitation_of_an_address_works_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("email", django.db.models.functions.text.Lower("email"))),
                        name="invitation_email_is_lower_case",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("role__in", ["user", "domain_monitor", "domain_admin", "monitor", "superadmin"])
                        ),
                        name="invitation_role_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RuleFailure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rule_failures",
                        to="accounts.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("reason", models.CharField(max_length=300)),
                ("since", models.DateTimeField(default=common.clock.now)),
                ("tried_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "ordering": ("since", "id"),
                "constraints": [
                    models.UniqueConstraint(fields=("project", "user"), name="rule_failure_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("code_hash", models.CharField(max_length=64, unique=True)),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SshKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ssh_keys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=60)),
                ("key_type", models.CharField(max_length=40)),
                (
                    "public_key",
                    models.CharField(help_text="Type and base64, without comment.", max_length=8192),
                ),
                (
                    "fingerprint",
                    models.CharField(help_text="SHA256:…, as ssh-keygen -l prints it.", max_length=50),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                (
                    "keypair",
                    models.ForeignKey(
                        help_text="The token by which it was added; it opens no longer than that.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ssh_keys",
                        to="accounts.keypair",
                    ),
                ),
                (
                    "expires_at",
                    models.DateTimeField(help_text="With the token by which it was added.", null=True),
                ),
                ("last_used_at", models.DateTimeField(null=True)),
                ("last_used_ip", models.GenericIPAddressField(null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "constraints": [
                    models.UniqueConstraint(fields=("user", "fingerprint"), name="ssh_key_once_a_person"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "key_type__in",
                                [
                                    "ssh-ed25519",
                                    "sk-ssh-ed25519@openssh.com",
                                    "sk-ecdsa-sha2-nistp256@openssh.com",
                                    "ecdsa-sha2-nistp256",
                                    "ecdsa-sha2-nistp384",
                                    "ecdsa-sha2-nistp521",
                                    "ssh-rsa",
                                ],
                            )
                        ),
                        name="ssh_key_type_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Viewing",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "login",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="viewing",
                        to="accounts.browserlogin",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("reason", models.CharField(max_length=200)),
                ("began_at", models.DateTimeField(default=common.clock.now)),
                ("ends_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("began_at"))), name="viewing_ends"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("reason", ""), _negated=True), name="viewing_has_a_reason"
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="KnownPlace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("seen_at", models.DateTimeField(db_index=True, default=common.clock.now)),
            ],
            options={
                "indexes": [models.Index(fields=["name"], name="known_place_by_name")],
                "constraints": [models.UniqueConstraint(fields=("user", "name"), name="known_place_once")],
            },
        ),
        migrations.CreateModel(
            name="ListColumns",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("table", models.CharField(max_length=40)),
                ("shown", models.JSONField(default=dict)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "table"), name="list_columns_once")]
            },
        ),
        migrations.CreateModel(
            name="MailDomain",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=253, unique=True)),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mail_domains",
                        to="accounts.domain",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("name", django.db.models.functions.text.Lower("name"))),
                        name="mail_domain_is_lower_case",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="OffBoarding",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="offboardings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "asked_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("asked_at", models.DateTimeField(default=common.clock.now, editable=False)),
                (
                    "folders",
                    models.CharField(
                        choices=[("keep", "Keep"), ("hand_over", "Hand Over"), ("delete", "Delete")],
                        max_length=20,
                    ),
                ),
                (
                    "heir",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("items", models.JSONField(default=list)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-asked_at", "-id"),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("finished_at", None)),
                        fields=("user",),
                        name="one_offboarding_at_a_time",
                    )
                ],
            },
        ),
        migrations.RunSQL((SQL / "limit_ledger.sql").read_text()),
        migrations.RunPython(create_default_policy),
    ]
