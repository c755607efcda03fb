"""Add measured sizes to folders and count their bytes in the limit ledger (ADR 0024)."""

from django.conf import settings
from django.db import migrations, models

import common.clock

FORWARD = """
CREATE FUNCTION berth_folder_use(domain_id bigint, project_id bigint, owner_id bigint, state text, size_bytes bigint)
RETURNS TABLE (level text, scope_id bigint, resource text, amount bigint) LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, part.resource, part.amount
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id)) AS scope (level, id),
        (VALUES ('folders', 1), ('folder_bytes', size_bytes)) AS part (resource, amount)
    WHERE scope.id IS NOT NULL AND state = 'ready'
$$;

CREATE OR REPLACE FUNCTION berth_count_folders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM added, LATERAL berth_folder_use(
            added.domain_id, added.project_id, added.owner_id, added.state, added.size_bytes) AS part;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-part.amount))
        FROM removed, LATERAL berth_folder_use(
            removed.domain_id, removed.project_id, removed.owner_id, removed.state, removed.size_bytes) AS part;
    ELSE
        -- A folder that an administrator hands over counts, and is not refused; nor is a size that was measured.
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount), false)
        FROM (
            SELECT now.level, now.scope_id, now.resource, now.amount FROM added, LATERAL berth_folder_use(
                added.domain_id, added.project_id, added.owner_id, added.state, added.size_bytes) AS now
            UNION ALL
            SELECT was.level, was.scope_id, was.resource, -was.amount FROM removed, LATERAL berth_folder_use(
                removed.domain_id, removed.project_id, removed.owner_id, removed.state, removed.size_bytes) AS was
        ) AS part;
    END IF;
    RETURN NULL;
END $$;

DROP FUNCTION berth_folder_use(bigint, bigint, bigint, text);
"""

BACKWARD = """
CREATE FUNCTION berth_folder_use(domain_id bigint, project_id bigint, owner_id bigint, state text)
RETURNS TABLE (level text, scope_id bigint, resource text) LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, 'folders'
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id)) AS scope (level, id)
    WHERE scope.id IS NOT NULL AND state = 'ready'
$$;

CREATE OR REPLACE FUNCTION berth_count_folders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(1::bigint))
        FROM added, LATERAL berth_folder_use(
            added.domain_id, added.project_id, added.owner_id, added.state) AS part;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-1::bigint))
        FROM removed, LATERAL berth_folder_use(
            removed.domain_id, removed.project_id, removed.owner_id, removed.state) AS part;
    ELSE
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount), false)
        FROM (
            SELECT now.*, 1::bigint AS amount FROM added, LATERAL berth_folder_use(
                added.domain_id, added.project_id, added.owner_id, added.state) AS now
            UNION ALL
            SELECT was.*, -1 FROM removed, LATERAL berth_folder_use(
                removed.domain_id, removed.project_id, removed.owner_id, removed.state) AS was
        ) AS part;
    END IF;
    RETURN NULL;
END $$;

DROP FUNCTION berth_folder_use(bigint, bigint, bigint, text, bigint);
DELETE FROM accounts_limituse WHERE resource = 'folder_bytes';
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0023_allow_lists"),
        ("vfolders", "0002_limit_ledger"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="vfolder",
            name="is_size_whole",
            field=models.BooleanField(default=True, editable=False, help_text="False: it holds more."),
        ),
        migrations.AddField(
            model_name="vfolder",
            name="measure_at",
            field=models.DateTimeField(default=common.clock.now, editable=False, help_text="Next time."),
        ),
        migrations.AddField(
            model_name="vfolder",
            name="measured_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="vfolder",
            name="size_bytes",
            field=models.BigIntegerField(
                default=0,
                editable=False,
                help_text="As it was measured last, with what the portal wrote since.",
            ),
        ),
        migrations.AddIndex(
            model_name="vfolder",
            index=models.Index(
                condition=models.Q(("state", "ready")), fields=["measure_at"], name="folder_measure"
            ),
        ),
        migrations.AddConstraint(
            model_name="vfolder",
            constraint=models.CheckConstraint(
                condition=models.Q(("size_bytes__gte", 0)), name="folder_size_not_negative"
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
