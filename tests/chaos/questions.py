"""Queries of the auditor of a chaos run, and the tables in which a run records its work."""

TABLES = """
    CREATE TABLE chaos_acknowledged (
        session_id uuid PRIMARY KEY, number bigserial UNIQUE, at timestamptz DEFAULT clock_timestamp()
    );
    CREATE TABLE chaos_limits (whose text, name text, value bigint, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE chaos_rounds (at timestamptz DEFAULT clock_timestamp());
    CREATE INDEX ON chaos_rounds (at)
"""
"""What a run tells its auditor: sessions that were answered, limits as they come to hold, rounds that came to their end."""

OVER_ALLOCATED = """
    SELECT agent.name, slot.slot_name, slot.capacity, slot.surplus, slot.occupied, coalesce(held.amount, 0) AS held
    FROM agents_agentslot AS slot JOIN agents_agent AS agent ON agent.id = slot.agent_id
    JOIN agents_resourcegroup AS resources ON resources.id = agent.resource_group_id
    LEFT JOIN (
        SELECT agent_id, slot_name, sum(amount) AS amount, max(amount) AS largest FROM sessions_app_kernelallocation GROUP BY 1, 2
    ) AS held USING (agent_id, slot_name)
    WHERE slot.occupied > floor(slot.capacity * CASE slot.slot_name
            WHEN 'cpu' THEN resources.cpu_overcommit WHEN 'mem' THEN resources.mem_overcommit ELSE 1 END)
        OR held.largest > slot.capacity OR coalesce(held.amount, 0) <> slot.occupied
"""
DEVICES_OVER_ALLOCATED = """
    SELECT agent.name, device.slot_name, device.index, device.occupied, coalesce(held.amount, 0)::bigint AS held, held.slots
    FROM agents_agentdevice AS device JOIN agents_agent AS agent ON agent.id = device.agent_id
    FULL JOIN (
        SELECT each.id, sum(allocation.amount / cardinality(allocation.devices)) AS amount,
            array_agg(DISTINCT allocation.slot_name) AS slots, array_agg(DISTINCT allocation.agent_id) AS agents
        FROM sessions_app_kernelallocation AS allocation, unnest(allocation.devices) AS each (id) GROUP BY each.id
    ) AS held ON held.id = device.id
    WHERE device.id IS NULL OR device.occupied > 1000 OR coalesce(held.amount, 0) <> device.occupied
        OR held.slots <> ARRAY[device.slot_name] OR held.agents <> ARRAY[device.agent_id]
"""
HELD_WRONGLY = """
    SELECT session.id::text, session.status, count(allocation.id) AS rows
    FROM sessions_app_computesession AS session JOIN sessions_app_kernel AS kernel ON kernel.session_id = session.id
    LEFT JOIN sessions_app_kernelallocation AS allocation ON allocation.kernel_id = kernel.id
    WHERE session.ended_at IS NULL
    GROUP BY session.id, kernel.id
    HAVING CASE WHEN session.status = ANY(%(holding)s)
        THEN coalesce(jsonb_object_agg(allocation.slot_name, allocation.amount) FILTER (WHERE allocation.id IS NOT NULL), '{}')
            <> coalesce(kernel.requested_slots, session.requested_slots) OR bool_or(allocation.agent_id IS DISTINCT FROM kernel.agent_id)
        ELSE count(allocation.id) > 0 END
"""
HELD_BY_ENDED = """
    SELECT session.id::text, session.status, count(*) AS rows FROM sessions_app_kernelallocation AS allocation
    JOIN sessions_app_kernel AS kernel ON kernel.id = allocation.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    WHERE session.ended_at IS NOT NULL GROUP BY session.id
"""
USED = """
    WITH live AS (SELECT * FROM sessions_app_computesession WHERE ended_at IS NULL),
    parts AS (
        SELECT domain_id, project_id, owner_id, keypair_id, 'sessions' AS name, 1::bigint AS amount FROM live
        UNION ALL
        SELECT domain_id, project_id, owner_id, keypair_id, 'pending_sessions', 1 FROM live WHERE status = 'PENDING'
        UNION ALL
        SELECT domain_id, project_id, owner_id, keypair_id, 'pending_slots.' || asked.key, sum(asked.value::bigint)
        FROM live JOIN sessions_app_kernel AS kernel ON kernel.session_id = live.id,
            LATERAL jsonb_each_text(coalesce(kernel.requested_slots, live.requested_slots)) AS asked WHERE status = 'PENDING'
        GROUP BY domain_id, project_id, owner_id, keypair_id, asked.key
        UNION ALL
        SELECT live.domain_id, live.project_id, live.owner_id, live.keypair_id, 'slots.' || allocation.slot_name, allocation.amount
        FROM live JOIN sessions_app_kernel AS kernel ON kernel.session_id = live.id
        JOIN sessions_app_kernelallocation AS allocation ON allocation.kernel_id = kernel.id
    )
    SELECT scope.level, scope.id, parts.name, sum(parts.amount)::bigint AS used
    FROM parts, LATERAL (
        VALUES ('domain', domain_id), ('project', project_id), ('user', owner_id), ('keypair', keypair_id)
    ) AS scope (level, id) WHERE scope.id IS NOT NULL AND parts.amount <> 0
    GROUP BY 1, 2, 3
"""
COUNTED = """
    SELECT level, scope_id AS id, resource, used FROM accounts_limituse
    WHERE used <> 0 AND split_part(resource, '.', 1) IN ('sessions', 'pending_sessions', 'slots', 'pending_slots')
"""
LIMITS = """
    SELECT level, scope.id, 'policy-' || policy.id AS whose, each.name, each.value
    FROM (SELECT 'domain' AS level, id, policy_id FROM accounts_domain
          UNION ALL SELECT 'project', id, policy_id FROM accounts_project
          UNION ALL SELECT 'user', id, policy_id FROM accounts_user
          UNION ALL SELECT 'keypair', id, policy_id FROM accounts_keypair) AS scope
    JOIN accounts_resourcepolicy AS policy ON policy.id = scope.policy_id,
    LATERAL (
        SELECT 'sessions' AS name, max_sessions::bigint AS value UNION ALL SELECT 'pending_sessions', max_pending_sessions
        UNION ALL SELECT 'slots.' || key, value::bigint FROM jsonb_each_text(max_slots)
        UNION ALL SELECT 'pending_slots.' || key, value::bigint FROM jsonb_each_text(max_pending_slots)
    ) AS each WHERE each.value IS NOT NULL
"""
IN_FORCE = """
    SELECT whose, name, max(value) AS value FROM (
        SELECT whose, name, value, at, lead(at) OVER (PARTITION BY whose, name ORDER BY at) AS until FROM chaos_limits
    ) AS each WHERE until IS NULL OR until > %(in_force_since)s GROUP BY 1, 2
"""
FIRST_LIMITS = "SELECT whose, name FROM chaos_limits GROUP BY 1, 2 HAVING min(at) > %(in_force_since)s"
LOST = """
    SELECT answered.session_id::text FROM chaos_acknowledged AS answered
    WHERE (%(all)s OR answered.number > %(answered)s)
        AND NOT EXISTS (SELECT FROM sessions_app_computesession AS session WHERE session.id = answered.session_id)
"""
NEWEST = """
    SELECT (SELECT coalesce(max(id), 0) FROM sessions_app_sessiontransition) AS step,
        (SELECT coalesce(max(number), 0) FROM chaos_acknowledged) AS answered
"""
_LOOKED_AT = """
    (SELECT id FROM sessions_app_computesession WHERE %(all)s
    UNION SELECT session_id FROM sessions_app_sessiontransition WHERE id > %(step)s)
"""
BROKEN_HISTORY = f"""
    SELECT session_id::text, string_agg(from_status || '>' || to_status, ' ' ORDER BY id) AS history FROM (
        SELECT step.*, lag(to_status, 1, '') OVER (PARTITION BY session_id ORDER BY step.id) AS before,
            count(*) OVER (PARTITION BY session_id, to_status) AS times, kernel.attempts
        FROM sessions_app_sessiontransition AS step JOIN {_LOOKED_AT} AS looked_at ON looked_at.id = step.session_id
        LEFT JOIN LATERAL (
            SELECT max(attempt) AS attempts FROM sessions_app_kernel AS kernel WHERE kernel.session_id = looked_at.id
        ) AS kernel ON true
    ) AS step GROUP BY session_id HAVING bool_or(from_status <> before OR times > attempts)
"""
ENDED_TWICE_OR_WRONGLY = f"""
    SELECT session.id::text, session.status
    FROM (SELECT id FROM sessions_app_computesession WHERE ended_at IS NULL UNION SELECT id FROM {_LOOKED_AT} AS ended) AS looked_at
    JOIN sessions_app_computesession AS session USING (id)
    LEFT JOIN LATERAL (
        SELECT to_status FROM sessions_app_sessiontransition AS step WHERE step.session_id = session.id ORDER BY step.id DESC LIMIT 1
    ) AS last ON true
    WHERE session.status IS DISTINCT FROM last.to_status
"""
STUCK_BEFORE = """
    SELECT least(clock_timestamp() - make_interval(secs => %(stuck_after_s)s), (
        SELECT at FROM chaos_rounds ORDER BY at DESC OFFSET %(rounds)s - 1 LIMIT 1)) AS instant,
        (SELECT count(*) FROM chaos_rounds) >= %(rounds)s AS was_looked_after
"""
STUCK = """
    SELECT session.id::text, session.status, session.status_changed_at::text FROM sessions_app_computesession AS session
    WHERE session.ended_at IS NULL AND session.status IN ('SCHEDULED', 'PREPARING', 'STARTING', 'TERMINATING')
        AND session.status_changed_at < %(stuck_before)s
"""
TOO_MANY_AT_ONCE = """
    SELECT asked.id::text, asked.most_at_once, count(*) AS let_in FROM sessions_app_computesession AS element
    JOIN sessions_app_sessionarray AS asked ON element.array_id = asked.id
    WHERE element.ended_at IS NULL AND element.held_for IN ('', 'group_closed')
    GROUP BY asked.id HAVING count(*) > asked.most_at_once
"""
GROUP_USED = """
    WITH held AS (
        SELECT session.resource_group_id AS group_id, session.type, session.owner_id, held.slot_name, held.amount
        FROM sessions_app_kernelallocation AS held JOIN sessions_app_kernel AS kernel ON kernel.id = held.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    ), counted AS (
        SELECT 'group-' || its_group.id AS whose, its_limit.value AS rule, each.kind, each.most, held.slot_name, held.amount,
            CASE each.kind WHEN 'each' THEN held.owner_id END AS id
        FROM agents_resourcegroup AS its_group JOIN held ON held.group_id = its_group.id
        CROSS JOIN LATERAL jsonb_array_elements(its_group.limits) AS its_limit,
        LATERAL (VALUES ('together', its_limit.value -> 'together'), ('each', its_limit.value -> 'each')) AS each (kind, most)
        WHERE each.most ? held.slot_name AND (its_limit.value -> 'session_types' = '[]' OR its_limit.value -> 'session_types' ? held.type)
    )
    SELECT kind AS level, id, whose, concat_ws('.', rule ->> 'name', kind, slot_name) AS name,
        (most ->> slot_name)::bigint AS value, sum(amount)::bigint AS used
    FROM counted GROUP BY 1, 2, 3, 4, 5
"""
"""What sessions of a group hold together, or those of one person (`id`), by each limit of the group that counts them."""
TOO_EARLY = """
    SELECT session.id::text, session.status, awaited.id::text AS lives
    FROM sessions_app_computesession AS session JOIN sessions_app_sessiondependency AS its ON its.session_id = session.id
    JOIN LATERAL (
        SELECT id, ended_at FROM sessions_app_computesession WHERE id = its.after_id
        UNION ALL SELECT id, ended_at FROM sessions_app_computesession WHERE array_id = its.after_array_id
    ) AS awaited ON awaited.ended_at IS NULL
    WHERE session.ended_at IS NULL AND session.status = ANY(%(holding)s)
"""
LEFT_WAITING = """
    SELECT session.id::text, max(awaited.ended_at)::text AS all_ended_at
    FROM sessions_app_computesession AS session JOIN sessions_app_sessiondependency AS its ON its.session_id = session.id
    CROSS JOIN LATERAL (
        SELECT ended_at FROM sessions_app_computesession WHERE id = its.after_id
        UNION ALL SELECT ended_at FROM sessions_app_computesession WHERE array_id = its.after_array_id
    ) AS awaited
    WHERE session.ended_at IS NULL AND session.status = 'PENDING' AND session.held_for = 'dependency'
    GROUP BY session.id
    HAVING bool_and(awaited.ended_at IS NOT NULL) AND max(awaited.ended_at) < %(stuck_before)s
"""
TOO_CLOSE = """
    SELECT agent.name, session.placement_group, array_agg(session.id::text) AS sessions
    FROM sessions_app_computesession AS session JOIN sessions_app_kernel AS kernel ON kernel.session_id = session.id
    JOIN agents_agent AS agent ON agent.id = kernel.agent_id
    WHERE session.ended_at IS NULL AND session.status = ANY(%(holding)s) AND session.placement_rule = 'strict_spread'
    GROUP BY agent.name, session.project_id, session.owner_id, session.placement_group,
        CASE session.placement_group WHEN '' THEN session.array_id END
    HAVING count(*) > 1
"""
KERNELS = """
    SELECT 'berth-' || replace(kernel.id::text, '-', '') || '-' || kernel.attempt AS name, agent.name AS agent, session.status,
        session.id::text
    FROM sessions_app_kernel AS kernel JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    JOIN agents_agent AS agent ON agent.id = kernel.agent_id WHERE session.ended_at IS NULL
"""
VIOLATIONS = (
    ("over-allocated", OVER_ALLOCATED),
    ("over-allocated", DEVICES_OVER_ALLOCATED),
    ("over-allocated", HELD_WRONGLY),
    ("over-allocated", HELD_BY_ENDED),
    ("too close", TOO_CLOSE),
    ("too early", TOO_EARLY),
    ("limit exceeded", TOO_MANY_AT_ONCE),
    ("lost", LOST),
    ("doubled", BROKEN_HISTORY),
    ("doubled", ENDED_TWICE_OR_WRONGLY),
    ("stuck", STUCK),
    ("stuck", LEFT_WAITING),
)
"""Each row of these answers is one, of this kind."""
