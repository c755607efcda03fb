ALTER TABLE accounts_limituse SET (fillfactor = 50);

CREATE FUNCTION berth_change_use(levels text[], ids bigint[], resources text[], amounts bigint[], refuses boolean DEFAULT true)
RETURNS void
LANGUAGE plpgsql AS $$
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
    SELECT grown.* INTO bad FROM (
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
    WHERE grown.used > grown.most ORDER BY grown.used LIMIT 1;

    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
END $$;

CREATE FUNCTION berth_use(its_domain bigint, its_project bigint, its_owner bigint, its_keypair bigint, resources text[], amounts bigint[])
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    IF NOT 0 < ANY (amounts) THEN
        INSERT INTO accounts_limituse AS use (level, scope_id, resource, used)
        SELECT scope.level, scope.id, part.resource, part.amount
        FROM (VALUES ('domain', its_domain), ('keypair', its_keypair), ('project', its_project), ('user', its_owner))
            AS scope (level, id), unnest(resources, amounts) AS part (resource, amount)
        WHERE scope.id IS NOT NULL AND part.amount <> 0
        ORDER BY scope.level, scope.id, part.resource
        ON CONFLICT (level, scope_id, resource) DO UPDATE SET used = greatest(0, use.used + EXCLUDED.used);
        RETURN true;
    END IF;
    WITH written AS (
        INSERT INTO accounts_limituse AS use (level, scope_id, resource, used)
        SELECT scope.level, scope.id, part.resource, part.amount
        FROM (VALUES ('domain', its_domain), ('keypair', its_keypair), ('project', its_project), ('user', its_owner))
            AS scope (level, id), unnest(resources, amounts) AS part (resource, amount)
        WHERE scope.id IS NOT NULL AND part.amount <> 0
        ORDER BY scope.level, scope.id, part.resource
        ON CONFLICT (level, scope_id, resource) DO UPDATE SET used = greatest(0, use.used + EXCLUDED.used)
        RETURNING use.level, use.scope_id, use.resource, use.used
    ), grown AS (
        SELECT written.*, CASE split_part(written.resource, '.', 1)
            WHEN 'slots' THEN (policy.max_slots ->> split_part(written.resource, '.', 2))::bigint
            WHEN 'sessions' THEN policy.max_sessions
            WHEN 'pending_sessions' THEN policy.max_pending_sessions
            WHEN 'pending_slots' THEN (policy.max_pending_slots ->> split_part(written.resource, '.', 2))::bigint
        END AS most
        FROM written JOIN accounts_resourcepolicy AS policy ON policy.id = CASE written.level
            WHEN 'domain' THEN (SELECT policy_id FROM accounts_domain WHERE id = its_domain)
            WHEN 'project' THEN (SELECT policy_id FROM accounts_project WHERE id = its_project)
            WHEN 'user' THEN (SELECT policy_id FROM accounts_user WHERE id = its_owner)
            WHEN 'keypair' THEN (SELECT policy_id FROM accounts_keypair WHERE id = its_keypair)
        END
        WHERE written.resource <> ALL (ARRAY(
            SELECT resource FROM unnest(resources, amounts) AS part (resource, amount) WHERE amount <= 0))
    )
    SELECT * INTO bad FROM grown WHERE used > most ORDER BY used LIMIT 1;
    IF bad.used IS NOT NULL THEN
        RAISE EXCEPTION '% % would use % of %, more than %', bad.level, bad.scope_id, bad.used, bad.resource, bad.most
        USING ERRCODE = 'check_violation', CONSTRAINT = 'within_limits';
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION berth_limit(of_level text, of_id bigint, of_resource text)
RETURNS bigint
LANGUAGE sql STABLE AS $$
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

CREATE FUNCTION berth_count_keypairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM berth_change_use(
        array_agg('user'::text), array_agg(user_id), array_agg('keypairs'::text),
        array_agg(CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END))
    FROM changed;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_keypairs_added AFTER INSERT ON accounts_keypair
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_keypairs();

CREATE TRIGGER berth_keypairs_removed AFTER DELETE ON accounts_keypair
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_count_keypairs();
