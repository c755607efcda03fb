"""Create resource policies and the ledger of their use.

The function `berth_change_use` adds to LimitUse and rejects growth beyond a policy (ADR 0024).
Triggers of the apps whose rows use a limit call it.

Rows are written in order of their keys, so that statements do not deadlock. Only growth is
rejected: a limit may be set below its use, and releases always succeed, even if less was counted,
because a session must be able to end. The former constant limits become the policy of all existing
users.
"""

import django.db.models.deletion
from django.db import migrations, models

import common.clock

FORWARD = """
ALTER TABLE accounts_limituse SET (fillfactor = 50);

CREATE FUNCTION berth_limit(of_level text, of_id bigint, of_resource text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE split_part(of_resource, '.', 1)
        WHEN 'slots' THEN (policy.max_slots ->> split_part(of_resource, '.', 2))::bigint
        WHEN 'sessions' THEN policy.max_sessions
        WHEN 'pending_sessions' THEN policy.max_pending_sessions
        WHEN 'pending_slots' THEN (policy.max_pending_slots ->> split_part(of_resource, '.', 2))::bigint
        WHEN 'folders' THEN policy.max_folders
        WHEN 'folder_bytes' THEN policy.max_folder_bytes
        WHEN 'keypairs' THEN policy.max_keypairs
    END
    FROM accounts_resourcepolicy AS policy
    WHERE policy.id = CASE of_level
        WHEN 'domain' THEN (SELECT policy_id FROM accounts_domain WHERE id = of_id)
        WHEN 'project' THEN (SELECT policy_id FROM accounts_project WHERE id = of_id)
        WHEN 'user' THEN (SELECT policy_id FROM accounts_user WHERE id = of_id)
        WHEN 'keypair' THEN (SELECT policy_id FROM accounts_keypair WHERE id = of_id)
    END
$$;

CREATE FUNCTION berth_change_use(
    levels text[], ids bigint[], resources text[], amounts bigint[], refuses boolean DEFAULT true
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    WITH change AS (
        SELECT part.level, part.scope_id, part.resource, sum(part.amount)::bigint AS amount
        FROM unnest(levels, ids, resources, amounts) AS part (level, scope_id, resource, amount)
        WHERE part.scope_id IS NOT NULL
        GROUP BY part.level, part.scope_id, part.resource HAVING sum(part.amount) <> 0
    ), written AS (
        INSERT INTO accounts_limituse AS use (level, scope_id, resource, used)
        SELECT level, scope_id, resource, amount FROM change ORDER BY level, scope_id, resource
        ON CONFLICT (level, scope_id, resource) DO UPDATE SET used = greatest(0, use.used + EXCLUDED.used)
        RETURNING use.level, use.scope_id, use.resource, use.used
    )
    SELECT written.*, berth_limit(written.level, written.scope_id, written.resource) AS most INTO bad
    FROM written JOIN change USING (level, scope_id, resource)
    WHERE refuses AND change.amount > 0 AND written.used > berth_limit(written.level, written.scope_id, written.resource)
    ORDER BY written.used LIMIT 1;

    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
END $$;

CREATE FUNCTION berth_count_keypairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM berth_change_use(
        array_agg('user'::text), array_agg(user_id), array_agg('keypairs'::text),
        array_agg(CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END))
    FROM changed;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_keypairs_added AFTER INSERT ON accounts_keypair
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_keypairs();
CREATE TRIGGER berth_keypairs_removed AFTER DELETE ON accounts_keypair
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_keypairs();

INSERT INTO accounts_limituse (level, scope_id, resource, used)
SELECT 'user', user_id, 'keypairs', count(*) FROM accounts_keypair GROUP BY user_id;
"""

BACKWARD = """
DROP TRIGGER berth_keypairs_removed ON accounts_keypair;
DROP TRIGGER berth_keypairs_added ON accounts_keypair;
DROP FUNCTION berth_count_keypairs();
DROP FUNCTION berth_change_use(text[], bigint[], text[], bigint[], boolean);
DROP FUNCTION berth_limit(text, bigint, text);
"""


def give_default_policy(apps, schema_editor):
    policies = apps.get_model("accounts", "ResourcePolicy").objects
    default = policies.create(name="default", is_default=True, max_sessions=200, max_keypairs=50)
    apps.get_model("accounts", "User").objects.filter(policy=None).update(policy=default)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_off_boarding")]

    operations = [
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
                ("name", models.CharField(max_length=64, unique=True)),
                ("is_default", models.BooleanField(default=False, help_text="New people get it.")),
                ("max_slots", models.JSONField(blank=True, default=dict)),
                ("max_sessions", models.PositiveIntegerField(blank=True, null=True)),
                ("max_pending_sessions", models.PositiveIntegerField(blank=True, null=True)),
                ("max_pending_slots", models.JSONField(blank=True, default=dict)),
                ("max_containers", models.PositiveIntegerField(blank=True, null=True)),
                ("max_lifetime_s", models.PositiveIntegerField(blank=True, null=True)),
                ("max_idle_s", models.PositiveIntegerField(blank=True, null=True)),
                ("max_priority", models.SmallIntegerField(blank=True, null=True)),
                ("max_folders", models.PositiveIntegerField(blank=True, null=True)),
                ("max_folder_bytes", models.BigIntegerField(blank=True, null=True)),
                ("max_keypairs", models.PositiveIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "resource policies",
                "ordering": ("name",),
                "constraints": [
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
        migrations.AddField(
            model_name="keypair",
            name="policy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="keypairs",
                to="accounts.resourcepolicy",
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="policy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="projects",
                to="accounts.resourcepolicy",
            ),
        ),
        migrations.AddField(
            model_name="user",
            name="policy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="users",
                to="accounts.resourcepolicy",
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.RunPython(give_default_policy, migrations.RunPython.noop),
    ]
