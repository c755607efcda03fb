"""Looks at a database and its engines from outside, by SQL of its own, and says what must never be. Knows nothing of Berth's
services, and takes nobody's word for a sum.

`python -m tests.chaos.auditor` does so once a second until its standard input ends, and prints a line for each violation.

What lives is looked at whole each time; of what has ended, what a step was taken by since the look before, and a while longer. The
last look of a run is at all of it.
"""

import json
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import redis

EVERY_S = 1.0
IN_FORCE_S = 20
"""A limit counts as in force for so long after it was changed: a statement that began before may commit after. And so does what was in force
so long before the last look: what is used may have grown at any time since, and on a busy machine half a minute is between two looks."""
STUCK_AFTER_S = 300
STUCK_AFTER_ROUNDS = 60
"""Longer than the deadlines of the stages, and so many rounds of what a portal does by itself that came to their end: until then
one that has too much to do, or whose processes are killed before they do anything, is only late."""
AGAIN_FOR_S = 20
"""What is new is looked at again for so long: a statement with a lower number may commit after one with a higher."""
NEVER = datetime.fromtimestamp(0, UTC)
LIVE = ("PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING")
HOLDING = LIVE[1:]

Row = dict[str, Any]

TABLES = """
    CREATE TABLE chaos_acknowledged (
        session_id uuid PRIMARY KEY, number bigserial UNIQUE, at timestamptz DEFAULT clock_timestamp()
    );
    CREATE TABLE chaos_limits (policy_id bigint, name text, value bigint, at timestamptz DEFAULT clock_timestamp());
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
            <> session.requested_slots OR bool_or(allocation.agent_id IS DISTINCT FROM kernel.agent_id)
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
        SELECT domain_id, project_id, owner_id, keypair_id, 'pending_slots.' || asked.key, asked.value::bigint * kernel_count
        FROM live, jsonb_each_text(requested_slots) AS asked WHERE status = 'PENDING'
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
    SELECT level, scope.id, policy.id AS policy_id, each.name, each.value
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
    SELECT policy_id, name, max(value) AS value FROM (
        SELECT policy_id, name, value, at, lead(at) OVER (PARTITION BY policy_id, name ORDER BY at) AS until FROM chaos_limits
    ) AS each WHERE until IS NULL OR until > %(in_force_since)s GROUP BY 1, 2
"""
FIRST_LIMITS = "SELECT policy_id, name FROM chaos_limits GROUP BY 1, 2 HAVING min(at) > %(in_force_since)s"
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
OVER_GROUP_LIMIT = """
    WITH held AS (
        SELECT session.resource_group_id AS group_id, session.type, session.owner_id, held.slot_name, held.amount
        FROM sessions_app_kernelallocation AS held JOIN sessions_app_kernel AS kernel ON kernel.id = held.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    ), counted AS (
        SELECT its_group.name AS of_group, what.limits, held.* FROM agents_resourcegroup AS its_group
        JOIN held ON held.group_id = its_group.id
        CROSS JOIN LATERAL jsonb_array_elements(its_group.limits) AS what (limits)
        WHERE what.limits -> 'session_types' = '[]' OR what.limits -> 'session_types' ? held.type
    )
    SELECT of_group, limits ->> 'name' AS name, NULL::bigint AS owner_id, slot_name, sum(amount)::bigint AS amount FROM counted
    GROUP BY 1, limits, slot_name HAVING sum(amount) > (limits -> 'together' ->> slot_name)::bigint
    UNION ALL
    SELECT of_group, limits ->> 'name', owner_id, slot_name, sum(amount)::bigint FROM counted
    GROUP BY 1, limits, owner_id, slot_name HAVING sum(amount) > (limits -> 'each' ->> slot_name)::bigint
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


@dataclass(frozen=True, slots=True)
class _Found:
    """A container: how it is, and since when it has ended (seconds since 1970)."""

    machine: str
    status: str
    until: float | None


@dataclass(slots=True)
class Auditor:
    """One connection of its own to each. `found` counts violations by kind."""

    database: psycopg.Connection[Row]
    engines: "redis.Redis"
    shelves: str
    stuck_after_s: float = STUCK_AFTER_S
    looks: int = 0
    found: Counter[str] = field(default_factory=Counter)
    _looked_at: datetime | None = None
    _used_before: dict[tuple[str, int, str], int] = field(default_factory=dict)
    _newest: list[tuple[float, Row]] = field(
        default_factory=lambda: [(float("-inf"), {"step": 0, "answered": 0})]
    )
    """The highest numbers that were seen, and when."""

    def look(self, *, at_all: bool = False) -> list[tuple[str, Row]]:
        """What is wrong now: (kind, what was seen). One instant of the database."""
        self.looks += 1
        containers = self.containers()
        with self.database.transaction(), self.database.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            told: dict[str, Any] = {
                "holding": list(HOLDING),
                "all": at_all,
                "stuck_after_s": self.stuck_after_s,
                "rounds": STUCK_AFTER_ROUNDS,
            }

            def ask(question: str) -> list[Row]:
                return cursor.execute(question, told).fetchall()

            [begun] = ask("SELECT now() AS instant")
            told["in_force_since"] = (self._looked_at or begun["instant"]) - timedelta(seconds=IN_FORCE_S)
            self._looked_at = begun["instant"]
            told |= self._since(ask(NEWEST)[0])
            [looked_after] = ask(STUCK_BEFORE)
            told["stuck_before"] = looked_after["instant"] if looked_after["was_looked_after"] else NEVER
            kernels = ask(KERNELS)
            wrong = [("over-allocated", row) for row in ask(OVER_ALLOCATED)]
            wrong += [("over-allocated", row) for row in ask(DEVICES_OVER_ALLOCATED)]
            wrong += [("over-allocated", row) for row in ask(HELD_WRONGLY)]
            wrong += [("over-allocated", row) for row in ask(HELD_BY_ENDED)]
            wrong += [("too close", row) for row in ask(TOO_CLOSE)]
            wrong += [("limit exceeded", row) for row in self._exceeded(ask)]
            wrong += [("limit exceeded", row) for row in ask(OVER_GROUP_LIMIT)]
            wrong += [("limit exceeded", row) for row in ask(TOO_MANY_AT_ONCE)]
            wrong += [("lost", row) for row in ask(LOST)]
            wrong += [("doubled", row) for row in ask(BROKEN_HISTORY)]
            wrong += [("doubled", row) for row in ask(ENDED_TWICE_OR_WRONGLY)]
            wrong += [("stuck", row) for row in ask(STUCK)]
            wrong += [("stuck", row) for row in _unnoticed(containers, kernels, told["stuck_before"])]
            wrong += [("doubled", row) for row in _elsewhere(containers, kernels)]
        self.found.update(kind for kind, _ in wrong)
        return wrong

    def _since(self, newest: Row) -> Row:
        """The numbers above which all is looked at: those that were the highest AGAIN_FOR_S ago."""
        now = time.monotonic()
        self._newest.append((now, newest))
        while self._newest[1][0] < now - AGAIN_FOR_S:
            self._newest.pop(0)
        return self._newest[0][1]

    def _exceeded(self, ask: Any) -> Iterator[Row]:
        """More than each limit that was in force since the last look, and more than then; or a count that is not the sum."""
        used = {(row["level"], row["id"], row["name"]): row["used"] for row in ask(USED)}
        in_force = {(row["policy_id"], row["name"]): row["value"] for row in ask(IN_FORCE)}
        unlimited = {(row["policy_id"], row["name"]) for row in ask(FIRST_LIMITS)}
        for row in ask(LIMITS):
            key, kind = (row["level"], row["id"], row["name"]), (row["policy_id"], row["name"])
            amount = used.get(key, 0)
            most = max(row["value"], in_force.get(kind, 0), self._used_before.get(key, 0))
            if amount > most and kind not in unlimited:
                yield {"scope": key, "used": amount, "limit": row["value"], "most": most}
        self._used_before = used
        counted = {(row["level"], row["id"], row["resource"]): row["used"] for row in ask(COUNTED)}
        if counted != used:
            differ = {str(key) for key in {*counted, *used} if counted.get(key, 0) != used.get(key, 0)}
            if differ:
                yield {"ledger differs": sorted(differ)[:5]}

    def containers(self) -> dict[str, list[_Found]]:
        """By name, on all machines."""
        there: dict[str, list[_Found]] = {}
        keys: Any = self.engines.scan_iter(match=f"berth:simulated:{self.shelves}:*:containers", count=1000)
        for key in keys:
            machine = key.decode().split(":")[-2]
            for name, text in self.engines.hgetall(key).items():
                told = json.loads(text)
                there.setdefault(name.decode(), []).append(_Found(machine, told["status"], told["until"]))
        return there


def _elsewhere(containers: Mapping[str, list[_Found]], kernels: list[Row]) -> Iterator[Row]:
    """Containers of live sessions on more than one machine, or on another than the rows say."""
    for kernel in kernels:
        machines = [found.machine for found in containers.get(kernel["name"], [])]
        if machines and machines != [kernel["agent"]]:
            yield {"container": kernel["name"], "machines": machines, "should be": kernel["agent"]}


def _unnoticed(containers: Mapping[str, list[_Found]], kernels: list[Row], before: datetime) -> Iterator[Row]:
    """Sessions that run by their rows, while their container has ended long ago."""
    for kernel in kernels:
        for found in containers.get(kernel["name"], []):
            if kernel["status"] == "RUNNING" and found.until and found.until < before.timestamp():
                yield {"session": kernel["id"], "its container has ended": found.until}


def auditor(stuck_after_s: float = STUCK_AFTER_S) -> Auditor:
    database = psycopg.connect(os.environ["DATABASE_URL"], row_factory=psycopg.rows.dict_row)
    return Auditor(
        database,
        redis.Redis.from_url(os.environ["REDIS_URL"]),
        os.environ["CHAOS_INSTALLATION"],
        stuck_after_s,
    )


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one = auditor()
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began_at = time.monotonic()
        for kind, row in one.look():
            tell(f"{kind}: {json.dumps(row, default=str)}")
        time.sleep(min(5.0, 2 * (time.monotonic() - began_at)))  # a third of one processor at most
    tell(f"looks: {one.looks}")


if __name__ == "__main__":
    main()
