CREATE FUNCTION berth_decay(age interval, half_life_s integer)
RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$
    SELECT power(2::double precision,
                 -least(200, greatest(0, extract(epoch FROM age)::double precision) / half_life_s))
$$;

CREATE FUNCTION berth_keep_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    INSERT INTO scheduler_decayeduse AS past (group_id, project_id, user_id, slot_name, average, as_of)
    SELECT gone.group_id, gone.project_id, gone.owner_id, gone.slot_name,
           sum(gone.amount * (1 - berth_decay(until - gone.held_since, gone.half_life_s))), until
    FROM (
        SELECT resources.id AS group_id, resources.usage_half_life_s AS half_life_s, session.project_id, session.owner_id,
               changed.slot_name, changed.held_since, sum(changed.amount)::double precision AS amount
        FROM changed
        JOIN agents_agent AS agent ON agent.id = changed.agent_id
        JOIN agents_resourcegroup AS resources ON resources.id = agent.resource_group_id
        JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
        GROUP BY resources.id, session.project_id, session.owner_id, changed.slot_name, changed.held_since
    ) AS gone
    GROUP BY gone.group_id, gone.project_id, gone.owner_id, gone.slot_name
    ORDER BY gone.group_id, gone.project_id, gone.owner_id, gone.slot_name
    -- Whichever of two comes first: each is as old as the later one makes it.
    ON CONFLICT (group_id, project_id, user_id, slot_name) DO UPDATE SET
        as_of = greatest(past.as_of, EXCLUDED.as_of),
        average = (
            SELECT CASE WHEN kept.average < 1e-6 THEN 0 ELSE kept.average END
            FROM (
                SELECT past.average * berth_decay(EXCLUDED.as_of - past.as_of, usage_half_life_s)
                       + EXCLUDED.average * berth_decay(past.as_of - EXCLUDED.as_of, usage_half_life_s) AS average
                FROM agents_resourcegroup WHERE id = past.group_id
            ) AS kept
        );
    RETURN NULL;
END $$;

CREATE TRIGGER berth_use_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_keep_use();

CREATE FUNCTION berth_rebase_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    UPDATE scheduler_decayeduse AS past
    SET average = CASE WHEN held.average < 1e-6 THEN 0 ELSE held.average END,
        as_of = greatest(past.as_of, until)
    FROM (
        SELECT id, average * berth_decay(until - as_of, OLD.usage_half_life_s) AS average
        FROM scheduler_decayeduse WHERE group_id = NEW.id
        ORDER BY project_id, user_id, slot_name FOR NO KEY UPDATE
    ) AS held
    WHERE held.id = past.id;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_half_life_changed AFTER UPDATE OF usage_half_life_s ON agents_resourcegroup
    FOR EACH ROW WHEN ((old.usage_half_life_s IS DISTINCT FROM new.usage_half_life_s))
    EXECUTE FUNCTION berth_rebase_use();
