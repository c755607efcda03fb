ALTER TABLE sessions_app_computesession SET (fillfactor = 60);
ALTER TABLE sessions_app_kernel SET (fillfactor = 60);

-- One device gives a share of itself, several all of themselves.
ALTER TABLE sessions_app_kernelallocation ADD CONSTRAINT allocation_is_of_devices CHECK (
    cardinality(devices) = 0 OR (cardinality(devices) = 1 AND amount <= 1000) OR amount = 1000 * cardinality(devices)
);

CREATE FUNCTION berth_apply_allocations() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan TO 'off'
SET enable_hashjoin TO 'off'
SET enable_mergejoin TO 'off'
AS $$
DECLARE
    unknown bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH part AS MATERIALIZED (
            SELECT agent_id, slot_name, sum(amount)::bigint AS amount FROM changed GROUP BY agent_id, slot_name
        ), written AS (
            UPDATE agents_agentslot AS slot SET occupied = slot.occupied + part.amount
            FROM part WHERE slot.agent_id = part.agent_id AND slot.slot_name = part.slot_name RETURNING slot.id
        )
        SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
        IF unknown <> 0 THEN
            RAISE EXCEPTION 'allocation of a slot that its agent does not have' USING ERRCODE = 'check_violation';
        END IF;
        IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{}') THEN
            WITH part AS MATERIALIZED (
            SELECT each.id, changed.agent_id, changed.slot_name,
                   sum(changed.amount / cardinality(changed.devices))::integer AS amount
            FROM changed, unnest(changed.devices) AS each (id)
            GROUP BY each.id, changed.agent_id, changed.slot_name
            ), written AS (
                UPDATE agents_agentdevice AS device SET occupied = device.occupied + part.amount
                FROM part WHERE device.id = part.id AND device.agent_id = part.agent_id
                    AND device.slot_name = part.slot_name AND device.is_present
                RETURNING device.id
            )
            SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
            IF unknown <> 0 THEN
                RAISE EXCEPTION 'allocation of devices that its agent does not have'
                USING ERRCODE = 'check_violation';
            END IF;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        WITH part AS MATERIALIZED (
            SELECT agent_id, slot_name, sum(amount)::bigint AS amount FROM changed GROUP BY agent_id, slot_name
        ), held AS MATERIALIZED (
            SELECT slot.id, part.amount FROM part
            JOIN agents_agentslot AS slot ON slot.agent_id = part.agent_id AND slot.slot_name = part.slot_name
            ORDER BY slot.id FOR NO KEY UPDATE OF slot
        )
        UPDATE agents_agentslot AS slot SET occupied = slot.occupied - held.amount FROM held WHERE slot.id = held.id;
        IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{}') THEN
            WITH part AS MATERIALIZED (
            SELECT each.id, changed.agent_id, changed.slot_name,
                   sum(changed.amount / cardinality(changed.devices))::integer AS amount
            FROM changed, unnest(changed.devices) AS each (id)
            GROUP BY each.id, changed.agent_id, changed.slot_name
            ), held AS MATERIALIZED (
                SELECT device.id, part.amount FROM part JOIN agents_agentdevice AS device ON device.id = part.id
                ORDER BY device.id FOR NO KEY UPDATE OF device
            )
            UPDATE agents_agentdevice AS device SET occupied = device.occupied - held.amount
            FROM held WHERE device.id = held.id;
        END IF;
    ELSE
        RAISE EXCEPTION 'allocations are inserted and deleted, never updated';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_allocations_added AFTER INSERT ON sessions_app_kernelallocation
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_apply_allocations();

CREATE TRIGGER berth_allocations_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_apply_allocations();

CREATE TRIGGER berth_allocations_fixed BEFORE UPDATE ON sessions_app_kernelallocation
    FOR EACH STATEMENT
    EXECUTE FUNCTION berth_apply_allocations();

CREATE FUNCTION berth_record_hours() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    INSERT INTO accounts_dayslots AS past (project_id, user_id, slot_name, day, held)
    SELECT gone.project_id, gone.owner_id, gone.slot_name, day.first::date,
           sum(gone.amount * (1000000 * extract(epoch FROM
               least(until AT TIME ZONE 'UTC', day.first + interval '1 day')
               - greatest(gone.held_since AT TIME ZONE 'UTC', day.first))))
    FROM (
        SELECT session.project_id, session.owner_id, changed.slot_name, changed.held_since, sum(changed.amount) AS amount
        FROM changed
        JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
        WHERE changed.held_since < until
        GROUP BY session.project_id, session.owner_id, changed.slot_name, changed.held_since
    ) AS gone,
    LATERAL generate_series(
        date_trunc('day', gone.held_since AT TIME ZONE 'UTC'), until AT TIME ZONE 'UTC', interval '1 day'
    ) AS day (first)
    GROUP BY gone.project_id, gone.owner_id, gone.slot_name, day.first
    ORDER BY gone.project_id, gone.owner_id, gone.slot_name, day.first
    ON CONFLICT (project_id, user_id, slot_name, day) DO UPDATE SET held = past.held + EXCLUDED.held;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_hours_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION berth_record_hours();
