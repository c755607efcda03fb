"""Write and check the use of one session's four scopes at once: summing up the changes of many
sessions took longer than writing them.
"""

from django.db import migrations

SCOPES = """(VALUES ('domain', its_domain), ('keypair', its_keypair), ('project', its_project), ('user', its_owner))
            AS scope (level, id)"""
WRITE = f"""
        INSERT INTO accounts_limituse AS use (level, scope_id, resource, used)
        SELECT scope.level, scope.id, part.resource, part.amount
        FROM {SCOPES}, unnest(resources, amounts) AS part (resource, amount)
        WHERE scope.id IS NOT NULL AND part.amount <> 0
        ORDER BY scope.level, scope.id, part.resource
        ON CONFLICT (level, scope_id, resource) DO UPDATE SET used = greatest(0, use.used + EXCLUDED.used)"""
BOUND = " UNION ALL ".join(
    f"""
        SELECT '{level}' AS level, policy.* FROM {table} AS scope
        JOIN accounts_resourcepolicy AS policy ON policy.id = scope.policy_id WHERE scope.id = {its}"""
    for level, table, its in (
        ("domain", "accounts_domain", "its_domain"),
        ("project", "accounts_project", "its_project"),
        ("user", "accounts_user", "its_owner"),
        ("keypair", "accounts_keypair", "its_keypair"),
    )
)
FORWARD = f"""
CREATE FUNCTION berth_change_use_of(
    its_domain bigint, its_project bigint, its_owner bigint, its_keypair bigint, resources text[], amounts bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    IF NOT 0 < ANY (amounts) THEN
        {WRITE};
        RETURN;
    END IF;
    WITH written AS ({WRITE}
        RETURNING use.level, use.scope_id, use.resource, use.used
    ), bound AS MATERIALIZED ({BOUND}
    ), grown AS (
        SELECT written.*, CASE split_part(written.resource, '.', 1)
            WHEN 'slots' THEN (bound.max_slots ->> split_part(written.resource, '.', 2))::bigint
            WHEN 'sessions' THEN bound.max_sessions
            WHEN 'pending_sessions' THEN bound.max_pending_sessions
            WHEN 'pending_slots' THEN (bound.max_pending_slots ->> split_part(written.resource, '.', 2))::bigint
        END AS most
        FROM written JOIN bound USING (level) JOIN unnest(resources, amounts) AS part (resource, amount) USING (resource)
        WHERE part.amount > 0
    )
    SELECT * INTO bad FROM grown WHERE used > most ORDER BY used LIMIT 1;
    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
END $$;
"""
BACKWARD = "DROP FUNCTION berth_change_use_of(bigint, bigint, bigint, bigint, text[], bigint[]);"


class Migration(migrations.Migration):
    dependencies = [("accounts", "0026_ends_of_sessions")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
