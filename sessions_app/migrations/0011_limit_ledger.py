"""Sessions in the ledger of limits: each live one counts, each waiting one with what it asks for, and what placed ones hold
is their allocation rows. Whoever writes these rows is counted in the same statement (ADR 0024)."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION berth_session_use(
    domain_id bigint, project_id bigint, owner_id bigint, keypair_id bigint,
    status text, requested_slots jsonb, kernel_count smallint
) RETURNS TABLE (level text, scope_id bigint, resource text, amount bigint) LANGUAGE sql IMMUTABLE AS $$
    SELECT scope.level, scope.id, part.resource, part.amount
    FROM (VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id), ('keypair', keypair_id))
        AS scope (level, id)
    CROSS JOIN (
        SELECT 'sessions', 1::bigint WHERE status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR')
        UNION ALL
        SELECT 'pending_sessions', 1 WHERE status = 'PENDING'
        UNION ALL
        SELECT 'pending_slots.' || key, value::bigint * kernel_count
        FROM jsonb_each_text(requested_slots) WHERE status = 'PENDING'
    ) AS part (resource, amount)
    WHERE scope.id IS NOT NULL
$$;

CREATE FUNCTION berth_count_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM added, LATERAL berth_session_use(
            added.domain_id, added.project_id, added.owner_id, added.keypair_id,
            added.status, added.requested_slots, added.kernel_count) AS part;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-part.amount))
        FROM removed, LATERAL berth_session_use(
            removed.domain_id, removed.project_id, removed.owner_id, removed.keypair_id,
            removed.status, removed.requested_slots, removed.kernel_count) AS part;
    ELSE
        IF EXISTS (
            SELECT 1 FROM added JOIN removed USING (id)
            WHERE (added.domain_id, added.project_id, added.owner_id, added.keypair_id) IS DISTINCT FROM
                  (removed.domain_id, removed.project_id, removed.owner_id, removed.keypair_id)
        ) THEN
            RAISE EXCEPTION 'a session stays whose it is: it is counted there';
        END IF;
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM (
            SELECT now.* FROM added JOIN removed USING (id), LATERAL berth_session_use(
                added.domain_id, added.project_id, added.owner_id, added.keypair_id,
                added.status, added.requested_slots, added.kernel_count) AS now
            WHERE added.status <> removed.status
            UNION ALL
            SELECT was.level, was.scope_id, was.resource, -was.amount
            FROM added JOIN removed USING (id), LATERAL berth_session_use(
                removed.domain_id, removed.project_id, removed.owner_id, removed.keypair_id,
                removed.status, removed.requested_slots, removed.kernel_count) AS was
            WHERE added.status <> removed.status
        ) AS part;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_sessions_added AFTER INSERT ON sessions_app_computesession
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION berth_count_sessions();
CREATE TRIGGER berth_sessions_changed AFTER UPDATE ON sessions_app_computesession
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_sessions();
CREATE TRIGGER berth_sessions_removed AFTER DELETE ON sessions_app_computesession
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_sessions();

CREATE FUNCTION berth_count_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM berth_change_use(
        array_agg(scope.level), array_agg(scope.id), array_agg('slots.' || changed.slot_name),
        array_agg(CASE TG_OP WHEN 'INSERT' THEN changed.amount ELSE -changed.amount END))
    FROM changed
    JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id,
    LATERAL (VALUES ('domain', session.domain_id), ('project', session.project_id),
                    ('user', session.owner_id), ('keypair', session.keypair_id)) AS scope (level, id);
    RETURN NULL;
END $$;

-- Their names come after those of the agents' triggers, so that slots of agents are locked first.
CREATE TRIGGER berth_held_added AFTER INSERT ON sessions_app_kernelallocation
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_held();
CREATE TRIGGER berth_held_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_count_held();

INSERT INTO accounts_limituse (level, scope_id, resource, used)
SELECT level, scope_id, resource, sum(amount) FROM (
    SELECT part.* FROM sessions_app_computesession AS session, LATERAL berth_session_use(
        session.domain_id, session.project_id, session.owner_id, session.keypair_id,
        session.status, session.requested_slots, session.kernel_count) AS part
    WHERE session.ended_at IS NULL
    UNION ALL
    SELECT scope.level, scope.id, 'slots.' || held.slot_name, held.amount
    FROM sessions_app_kernelallocation AS held
    JOIN sessions_app_kernel AS kernel ON kernel.id = held.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id,
    LATERAL (VALUES ('domain', session.domain_id), ('project', session.project_id),
                    ('user', session.owner_id), ('keypair', session.keypair_id)) AS scope (level, id)
    WHERE scope.id IS NOT NULL
) AS present
GROUP BY level, scope_id, resource;
"""

BACKWARD = """
DROP TRIGGER berth_held_removed ON sessions_app_kernelallocation;
DROP TRIGGER berth_held_added ON sessions_app_kernelallocation;
DROP FUNCTION berth_count_held();
DROP TRIGGER berth_sessions_removed ON sessions_app_computesession;
DROP TRIGGER berth_sessions_changed ON sessions_app_computesession;
DROP TRIGGER berth_sessions_added ON sessions_app_computesession;
DROP FUNCTION berth_count_sessions();
DROP FUNCTION berth_session_use(bigint, bigint, bigint, bigint, text, jsonb, smallint);
DELETE FROM accounts_limituse WHERE split_part(resource, '.', 1) IN ('sessions', 'pending_sessions', 'pending_slots', 'slots');
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0010_limits"), ("accounts", "0005_policies")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
