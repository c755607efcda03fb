"""Check the limits once per statement instead of per row: a function call per row took longer than
writing it.
"""

from django.db import migrations

CHANGE_USE = """
CREATE OR REPLACE FUNCTION berth_change_use(
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
    {bad}

    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
END $$;
"""

BY_THE_SET = """SELECT grown.* INTO bad FROM (
        SELECT written.*, CASE split_part(written.resource, '.', 1)
            WHEN 'slots' THEN (policy.max_slots ->> split_part(written.resource, '.', 2))::bigint
            WHEN 'sessions' THEN policy.max_sessions
            WHEN 'pending_sessions' THEN policy.max_pending_sessions
            WHEN 'pending_slots' THEN (policy.max_pending_slots ->> split_part(written.resource, '.', 2))::bigint
            WHEN 'folders' THEN policy.max_folders
            WHEN 'folder_bytes' THEN policy.max_folder_bytes
            WHEN 'keypairs' THEN policy.max_keypairs
        END AS most
        FROM written JOIN change USING (level, scope_id, resource)
        JOIN accounts_resourcepolicy AS policy ON policy.id = CASE written.level
            WHEN 'domain' THEN (SELECT policy_id FROM accounts_domain WHERE id = written.scope_id)
            WHEN 'project' THEN (SELECT policy_id FROM accounts_project WHERE id = written.scope_id)
            WHEN 'user' THEN (SELECT policy_id FROM accounts_user WHERE id = written.scope_id)
            WHEN 'keypair' THEN (SELECT policy_id FROM accounts_keypair WHERE id = written.scope_id)
        END
        WHERE refuses AND change.amount > 0
    ) AS grown
    WHERE grown.used > grown.most ORDER BY grown.used LIMIT 1;"""

BY_THE_ROW = """SELECT written.*, berth_limit(written.level, written.scope_id, written.resource) AS most INTO bad
    FROM written JOIN change USING (level, scope_id, resource)
    WHERE refuses AND change.amount > 0 AND written.used > berth_limit(written.level, written.scope_id, written.resource)
    ORDER BY written.used LIMIT 1;"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0024_priorities")]

    operations = [
        migrations.RunSQL(CHANGE_USE.replace("{bad}", BY_THE_SET), CHANGE_USE.replace("{bad}", BY_THE_ROW))
    ]
