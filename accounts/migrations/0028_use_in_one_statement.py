"""Check the limits of one owner by the rows just written, in the function's return expression,
because PL/pgSQL evaluates an expression faster than a query.
"""

from importlib import import_module

from django.db import migrations

before = import_module("accounts.migrations.0027_use_of_one_owner")

POLICY = " ".join(
    f"WHEN '{level}' THEN (SELECT policy_id FROM {table} WHERE id = {its})"
    for level, table, its in (
        ("domain", "accounts_domain", "its_domain"),
        ("project", "accounts_project", "its_project"),
        ("user", "accounts_user", "its_owner"),
        ("keypair", "accounts_keypair", "its_keypair"),
    )
)
ARGUMENTS = "bigint, bigint, bigint, bigint, text[], bigint[]"
FORWARD = f"""
CREATE FUNCTION berth_use(
    its_domain bigint, its_project bigint, its_owner bigint, its_keypair bigint, resources text[], amounts bigint[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    IF NOT 0 < ANY (amounts) THEN
        {before.WRITE};
        RETURN true;
    END IF;
    WITH written AS ({before.WRITE}
        RETURNING use.level, use.scope_id, use.resource, use.used
    ), grown AS (
        SELECT written.*, CASE split_part(written.resource, '.', 1)
            WHEN 'slots' THEN (policy.max_slots ->> split_part(written.resource, '.', 2))::bigint
            WHEN 'sessions' THEN policy.max_sessions
            WHEN 'pending_sessions' THEN policy.max_pending_sessions
            WHEN 'pending_slots' THEN (policy.max_pending_slots ->> split_part(written.resource, '.', 2))::bigint
        END AS most
        FROM written JOIN accounts_resourcepolicy AS policy ON policy.id = CASE written.level {POLICY} END
        WHERE written.resource <> ALL (ARRAY(SELECT resource FROM unnest(resources, amounts) AS part (resource, amount) WHERE amount <= 0))
    )
    SELECT * INTO bad FROM grown WHERE used > most ORDER BY used LIMIT 1;
    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
    RETURN true;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0027_use_of_one_owner")]

    operations = [migrations.RunSQL(FORWARD, f"DROP FUNCTION berth_use({ARGUMENTS});")]
