"""Looks at a database and its engines from outside, by SQL of its own, and says what must never be. Knows nothing of Berth's
services, and takes nobody's word for a sum.

`python -m tests.chaos.auditor` does so once a second until its standard input ends, and prints a line for each violation.
"""

import json
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import redis

EVERY_S = 1.0
IN_FORCE_S = 20
"""A limit counts as in force for so long after it was changed: a statement that began before may commit after."""
STUCK_AFTER_S = 300
"""Longer than the deadlines of the stages: until then a portal that has too much to do is only late."""
LIVE = ("PENDING", "SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING")
HOLDING = LIVE[1:]

Row = dict[str, Any]

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
    WHERE session.ended_at IS NULL OR allocation.id IS NOT NULL
    GROUP BY session.id, kernel.id
    HAVING CASE WHEN session.status = ANY(%(holding)s)
        THEN coalesce(jsonb_object_agg(allocation.slot_name, allocation.amount) FILTER (WHERE allocation.id IS NOT NULL), '{}')
            <> session.requested_slots OR bool_or(allocation.agent_id IS DISTINCT FROM kernel.agent_id)
        ELSE count(allocation.id) > 0 END
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
    ) AS each WHERE until IS NULL OR until > clock_timestamp() - make_interval(secs => %(in_force_s)s) GROUP BY 1, 2
"""
FIRST_LIMITS = "SELECT policy_id, name FROM chaos_limits GROUP BY 1, 2 HAVING min(at) > clock_timestamp() - make_interval(secs => %(in_force_s)s)"
LOST = """
    SELECT session_id::text FROM chaos_acknowledged
    WHERE session_id NOT IN (SELECT id FROM sessions_app_computesession)
"""
BROKEN_HISTORY = """
    SELECT session_id::text, string_agg(from_status || '>' || to_status, ' ' ORDER BY id) AS history FROM (
        SELECT step.*, lag(to_status, 1, '') OVER (PARTITION BY session_id ORDER BY id) AS before,
            count(*) OVER (PARTITION BY session_id, to_status) AS times,
            (SELECT max(attempt) FROM sessions_app_kernel AS kernel WHERE kernel.session_id = step.session_id) AS attempts
        FROM sessions_app_sessiontransition AS step WHERE session_id IN (
            SELECT id FROM sessions_app_computesession
            WHERE %(all)s OR status_changed_at > clock_timestamp() - make_interval(secs => 20))
    ) AS step GROUP BY session_id HAVING bool_or(from_status <> before OR times > attempts)
"""
ENDED_TWICE_OR_WRONGLY = """
    SELECT session.id::text, session.status FROM sessions_app_computesession AS session WHERE session.status <> (
        SELECT to_status FROM sessions_app_sessiontransition AS step WHERE step.session_id = session.id
        ORDER BY step.id DESC LIMIT 1) AND (%(all)s OR session.status_changed_at > clock_timestamp() - make_interval(secs => 20))
"""
STUCK = """
    SELECT session.id::text, session.status, session.status_changed_at::text FROM sessions_app_computesession AS session
    WHERE session.status IN ('SCHEDULED', 'PREPARING', 'STARTING', 'TERMINATING')
        AND session.status_changed_at < clock_timestamp() - make_interval(secs => %(stuck_after_s)s)
"""
TOO_MANY_AT_ONCE = """
    SELECT asked.id::text, asked.most_at_once, count(*) AS let_in FROM sessions_app_sessionarray AS asked
    JOIN sessions_app_computesession AS element ON element.array_id = asked.id
    WHERE element.ended_at IS NULL AND element.held_for IN ('', 'group_closed')
    GROUP BY asked.id HAVING count(*) > asked.most_at_once
"""
KERNELS = """
    SELECT 'berth-' || replace(kernel.id::text, '-', '') || '-' || kernel.attempt AS name, agent.name AS agent, session.status
    FROM sessions_app_kernel AS kernel JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    JOIN agents_agent AS agent ON agent.id = kernel.agent_id WHERE session.ended_at IS NULL
"""


@dataclass(slots=True)
class Auditor:
    """One connection of its own to each. `found` counts violations by kind."""

    database: psycopg.Connection[Row]
    engines: "redis.Redis"
    shelves: str
    stuck_after_s: float = STUCK_AFTER_S
    looks: int = 0
    found: Counter[str] = field(default_factory=Counter)
    _used_before: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def look(self, *, at_all: bool = False) -> list[tuple[str, Row]]:
        """What is wrong now: (kind, what was seen). One instant of the database."""
        self.looks += 1
        containers = self._containers()
        with self.database.transaction(), self.database.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            told: Mapping[str, Any] = {
                "holding": list(HOLDING),
                "all": at_all,
                "in_force_s": IN_FORCE_S,
                "stuck_after_s": self.stuck_after_s,
            }

            def ask(question: str) -> list[Row]:
                return cursor.execute(question, told).fetchall()

            wrong = [("over-allocated", row) for row in ask(OVER_ALLOCATED)]
            wrong += [("over-allocated", row) for row in ask(DEVICES_OVER_ALLOCATED)]
            wrong += [("over-allocated", row) for row in ask(HELD_WRONGLY)]
            wrong += [("limit exceeded", row) for row in self._exceeded(ask)]
            wrong += [("limit exceeded", row) for row in ask(TOO_MANY_AT_ONCE)]
            wrong += [("lost", row) for row in ask(LOST)]
            wrong += [("doubled", row) for row in ask(BROKEN_HISTORY)]
            wrong += [("doubled", row) for row in ask(ENDED_TWICE_OR_WRONGLY)]
            wrong += [("stuck", row) for row in ask(STUCK)]
            wrong += [("doubled", row) for row in _elsewhere(containers, ask(KERNELS))]
        self.found.update(kind for kind, _ in wrong)
        return wrong

    def _exceeded(self, ask: Any) -> Iterator[Row]:
        """More than each limit of these seconds, and more than before; or a count that is not the sum."""
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

    def _containers(self) -> dict[str, list[tuple[str, str]]]:
        """By container: the machines that have it, and how it is there."""
        there: dict[str, list[tuple[str, str]]] = {}
        for key in self.engines.scan_iter(match=f"berth:simulated:{self.shelves}:*:containers"):
            machine = key.decode().split(":")[-2]
            for name, told in self.engines.hgetall(key).items():
                there.setdefault(name.decode(), []).append((machine, json.loads(told)["status"]))
        return there


def _elsewhere(containers: Mapping[str, list[tuple[str, str]]], kernels: list[Row]) -> Iterator[Row]:
    """Containers of live sessions on more than one machine, or on another than the rows say."""
    for kernel in kernels:
        machines = [machine for machine, _ in containers.get(kernel["name"], [])]
        if machines and machines != [kernel["agent"]]:
            yield {"container": kernel["name"], "machines": machines, "should be": kernel["agent"]}


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
    one = auditor()
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        began_at = time.monotonic()
        for kind, row in one.look():
            tell(f"{kind}: {json.dumps(row, default=str)}")
        time.sleep(min(5.0, 2 * (time.monotonic() - began_at)))  # a third of one processor at most
    tell(f"looks: {one.looks}")


if __name__ == "__main__":
    main()
