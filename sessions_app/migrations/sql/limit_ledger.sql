CREATE FUNCTION berth_session_use(domain_id bigint, project_id bigint, owner_id bigint, keypair_id bigint, status text, requested_slots jsonb, kernel_count smallint)
RETURNS TABLE(level text, scope_id bigint, resource text, amount bigint)
LANGUAGE sql IMMUTABLE AS $$
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
DECLARE
    its record;  -- what one session changes, or holds
    ignored boolean;  -- an expression is asked faster than a query
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT now.domain_id, now.project_id, now.owner_id, now.keypair_id,
            ARRAY['sessions', 'pending_sessions'] || slots.names AS resources,
            ARRAY[live.change, pending.change]::bigint[] || slots.amounts AS amounts,
            (SELECT count(*) FROM added) = 1 AS is_alone,
            live.change <> 0 OR pending.change <> 0 AS changes
        INTO its
        FROM added AS now,
            LATERAL (SELECT (now.status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int) AS live (change),
            LATERAL (SELECT (now.status = 'PENDING')::int) AS pending (change),
            LATERAL (
                SELECT array_agg('pending_slots.' || key) AS names,
                    array_agg(value::bigint * now.kernel_count * pending.change) AS amounts
                FROM jsonb_each_text(now.requested_slots)
            ) AS slots
        LIMIT 1;
        IF its.is_alone THEN
            ignored := berth_use(
                its.domain_id, its.project_id, its.owner_id, its.keypair_id, its.resources, its.amounts);
        ELSE
            PERFORM berth_change_use(
            array_agg(sums.level), array_agg(sums.scope_id), array_agg(sums.resource), array_agg(sums.amount))
        FROM (
            WITH change AS (
                SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                    sum(live) AS live, sum(pending) AS pending
                FROM (
                    SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                        (status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int AS live,
                        (status = 'PENDING')::int AS pending
                    FROM added) AS present
                GROUP BY domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count
                HAVING sum(live) <> 0 OR sum(pending) <> 0
            ), part AS (
                SELECT domain_id, project_id, owner_id, keypair_id, each.resource, sum(each.amount) AS amount
                FROM change, LATERAL (
                    SELECT 'sessions', live UNION ALL SELECT 'pending_sessions', pending
                    UNION ALL SELECT 'pending_slots.' || key, value::bigint * kernel_count * pending
                    FROM jsonb_each_text(requested_slots) WHERE pending <> 0
                ) AS each (resource, amount)
                GROUP BY domain_id, project_id, owner_id, keypair_id, each.resource
            )
            SELECT scope.level, scope.id AS scope_id, part.resource, sum(part.amount)::bigint AS amount
            FROM part, LATERAL (VALUES ('domain', domain_id), ('project', project_id),
                                       ('user', owner_id), ('keypair', keypair_id)) AS scope (level, id)
            WHERE scope.id IS NOT NULL
            GROUP BY scope.level, scope.id, part.resource) AS sums;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(sums.level), array_agg(sums.scope_id), array_agg(sums.resource), array_agg(sums.amount))
        FROM (
            WITH change AS (
                SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                    sum(live) AS live, sum(pending) AS pending
                FROM (
                    SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                        -(status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int AS live,
                        -(status = 'PENDING')::int AS pending
                    FROM removed) AS present
                GROUP BY domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count
                HAVING sum(live) <> 0 OR sum(pending) <> 0
            ), part AS (
                SELECT domain_id, project_id, owner_id, keypair_id, each.resource, sum(each.amount) AS amount
                FROM change, LATERAL (
                    SELECT 'sessions', live UNION ALL SELECT 'pending_sessions', pending
                    UNION ALL SELECT 'pending_slots.' || key, value::bigint * kernel_count * pending
                    FROM jsonb_each_text(requested_slots) WHERE pending <> 0
                ) AS each (resource, amount)
                GROUP BY domain_id, project_id, owner_id, keypair_id, each.resource
            )
            SELECT scope.level, scope.id AS scope_id, part.resource, sum(part.amount)::bigint AS amount
            FROM part, LATERAL (VALUES ('domain', domain_id), ('project', project_id),
                                       ('user', owner_id), ('keypair', keypair_id)) AS scope (level, id)
            WHERE scope.id IS NOT NULL
            GROUP BY scope.level, scope.id, part.resource) AS sums;
    ELSE
        SELECT now.domain_id, now.project_id, now.owner_id, now.keypair_id,
            ARRAY['sessions', 'pending_sessions'] || slots.names AS resources,
            ARRAY[live.change, pending.change]::bigint[] || slots.amounts AS amounts,
            (SELECT count(*) FROM added) = 1
                AND (now.requested_slots, now.kernel_count) = (was.requested_slots, was.kernel_count) AS is_alone,
            live.change <> 0 OR pending.change <> 0 AS changes
        INTO its
        FROM added AS now, removed AS was,
            LATERAL (SELECT (now.status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int
                - (was.status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int) AS live (change),
            LATERAL (SELECT (now.status = 'PENDING')::int - (was.status = 'PENDING')::int) AS pending (change),
            LATERAL (
                SELECT array_agg('pending_slots.' || key) AS names,
                    array_agg(value::bigint * now.kernel_count * pending.change) AS amounts
                FROM jsonb_each_text(now.requested_slots)
            ) AS slots
        LIMIT 1;
        IF NOT its.is_alone THEN
            PERFORM berth_change_use(
            array_agg(sums.level), array_agg(sums.scope_id), array_agg(sums.resource), array_agg(sums.amount))
        FROM (
            WITH change AS (
                SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                    sum(live) AS live, sum(pending) AS pending
                FROM (
                    SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                        (status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int AS live,
                        (status = 'PENDING')::int AS pending
                    FROM added
                    UNION ALL
                    SELECT domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count,
                        -(status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int AS live,
                        -(status = 'PENDING')::int AS pending
                    FROM removed) AS present
                GROUP BY domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count
                HAVING sum(live) <> 0 OR sum(pending) <> 0
            ), part AS (
                SELECT domain_id, project_id, owner_id, keypair_id, each.resource, sum(each.amount) AS amount
                FROM change, LATERAL (
                    SELECT 'sessions', live UNION ALL SELECT 'pending_sessions', pending
                    UNION ALL SELECT 'pending_slots.' || key, value::bigint * kernel_count * pending
                    FROM jsonb_each_text(requested_slots) WHERE pending <> 0
                ) AS each (resource, amount)
                GROUP BY domain_id, project_id, owner_id, keypair_id, each.resource
            )
            SELECT scope.level, scope.id AS scope_id, part.resource, sum(part.amount)::bigint AS amount
            FROM part, LATERAL (VALUES ('domain', domain_id), ('project', project_id),
                                       ('user', owner_id), ('keypair', keypair_id)) AS scope (level, id)
            WHERE scope.id IS NOT NULL
            GROUP BY scope.level, scope.id, part.resource) AS sums;
        ELSIF its.changes THEN
            ignored := berth_use(
                its.domain_id, its.project_id, its.owner_id, its.keypair_id, its.resources, its.amounts);
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_sessions_added AFTER INSERT ON sessions_app_computesession
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_sessions();

CREATE TRIGGER berth_sessions_changed AFTER UPDATE ON sessions_app_computesession
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_sessions();

CREATE TRIGGER berth_sessions_removed AFTER DELETE ON sessions_app_computesession
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_sessions();

CREATE FUNCTION berth_refuse_new_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a session stays whose it is: it is counted there';
END $$;

CREATE TRIGGER berth_session_keeps_owner
    BEFORE UPDATE OF domain_id, project_id, owner_id, keypair_id ON sessions_app_computesession
    FOR EACH ROW WHEN ((OLD.domain_id, OLD.project_id, OLD.owner_id, OLD.keypair_id)
        IS DISTINCT FROM (NEW.domain_id, NEW.project_id, NEW.owner_id, NEW.keypair_id))
    EXECUTE FUNCTION berth_refuse_new_owner();

CREATE FUNCTION berth_count_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its record;  -- what one session changes, or holds
    ignored boolean;  -- an expression is asked faster than a query
BEGIN
    SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id, part.* INTO its
    FROM (
        SELECT count(DISTINCT kernel_id) = 1 AND count(*) < 100 AS is_alone, (array_agg(kernel_id))[1] AS kernel_id,
            array_agg('slots.' || slot_name) AS resources,
            array_agg(CASE TG_OP WHEN 'INSERT' THEN amount ELSE -amount END) AS amounts
        FROM (SELECT * FROM changed LIMIT 100) AS few
    ) AS part
    JOIN sessions_app_kernel AS kernel ON kernel.id = part.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id;
    IF its.is_alone THEN
        ignored := berth_use(
                its.domain_id, its.project_id, its.owner_id, its.keypair_id, its.resources, its.amounts);
        RETURN NULL;
    END IF;
    PERFORM berth_change_use(
            array_agg(sums.level), array_agg(sums.scope_id), array_agg(sums.resource), array_agg(sums.amount))
        FROM (
            WITH part AS (
                SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id,
                       'slots.' || slot.name AS resource,
                       sum(CASE TG_OP WHEN 'INSERT' THEN slot.amount ELSE -slot.amount END) AS amount
                FROM (
                    SELECT kernel_id, array_agg(slot_name) AS names, array_agg(amount) AS amounts
                    FROM changed GROUP BY kernel_id
                ) AS held
                JOIN sessions_app_kernel AS kernel ON kernel.id = held.kernel_id
                JOIN sessions_app_computesession AS session ON session.id = kernel.session_id,
                LATERAL unnest(held.names, held.amounts) AS slot (name, amount)
                GROUP BY session.domain_id, session.project_id, session.owner_id, session.keypair_id, slot.name
            )
            SELECT scope.level, scope.id AS scope_id, part.resource, sum(part.amount)::bigint AS amount
            FROM part, LATERAL (VALUES ('domain', domain_id), ('project', project_id),
                                       ('user', owner_id), ('keypair', keypair_id)) AS scope (level, id)
            WHERE scope.id IS NOT NULL
            GROUP BY scope.level, scope.id, part.resource) AS sums;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_held_added AFTER INSERT ON sessions_app_kernelallocation
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_held();

CREATE TRIGGER berth_held_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_held();
