"""Looks at everything from outside: rows by SQL, containers by the engines' own sockets. Shares no code with what it
watches: neither its models nor its services nor its runtime port."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import docker
import psycopg
import requests
from psycopg import Connection
from psycopg.rows import dict_row

from tests.waiting import wait_until

ENDED = frozenset({"TERMINATED", "CANCELLED", "ERROR"})
HOLDING = frozenset({"SCHEDULED", "PREPARING", "STARTING", "RUNNING", "TERMINATING"})
LEGAL = {
    "": {"PENDING"},
    "PENDING": {"SCHEDULED", "CANCELLED", "ERROR"},
    "SCHEDULED": {"PREPARING", "TERMINATING"},
    "PREPARING": {"STARTING", "TERMINATING"},
    "STARTING": {"RUNNING", "TERMINATING"},
    "RUNNING": {"TERMINATING"},
    "TERMINATING": {"TERMINATED", "ERROR", "PENDING"},  # PENDING: the next attempt
}
SESSION = "io.berth.session"
MOORING = "io.berth.mooring"
ROLE = "io.berth.role"
LASTING = ("relay", "tunnel")  # helpers that every remote machine has
WATCHED_EVERY_S = 0.4
OVERDUE_S = 60
SETTLED_S = 240

SESSIONS = """
    SELECT id::text, name, status, status_reason, status_message, ended_at, requested_slots,
           deadline_at < now() AS is_overdue
    FROM sessions_app_computesession
"""
HISTORY = """
    SELECT session_id::text, from_status, to_status, reason FROM sessions_app_sessiontransition
    ORDER BY session_id, id
"""
# One statement, one picture: what the ledger says, beside what live sessions hold and should hold.
LEDGER = """
    SELECT slot.agent_id, slot.slot_name, slot.occupied, slot.capacity,
           COALESCE((SELECT sum(amount) FROM sessions_app_kernelallocation AS held
                     WHERE held.agent_id = slot.agent_id AND held.slot_name = slot.slot_name), 0) AS held,
           COALESCE((SELECT sum((session.requested_slots ->> slot.slot_name)::bigint)
                     FROM sessions_app_kernel AS kernel
                     JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
                     WHERE kernel.agent_id = slot.agent_id AND session.status = ANY(%s)), 0) AS asked
    FROM agents_agentslot AS slot
"""

Row = dict[str, Any]


class ObservedEngine(Protocol):
    """An engine, asked past everything that may be broken between it and the portal."""

    def client(self) -> docker.APIClient: ...


class Observer:
    def __init__(self, database_url: str, installation: str, engines: Sequence[ObservedEngine]) -> None:
        self._database_url = database_url
        self._ours = f"io.berth.installation={installation}"
        self._engines = engines

    def rows(self, query: str = SESSIONS, *parameters: object) -> list[Row]:
        with self._connect() as connection:
            return ask(connection, query, *parameters)

    def _connect(self) -> Connection[Row]:
        return psycopg.connect(self._database_url, connect_timeout=5, row_factory=dict_row)

    def session(self, session_id: str) -> Row:
        return next(row for row in self.rows() if row["id"] == session_id)

    def reasons(self, session_id: str) -> list[tuple[str, str]]:
        """(status, reason) of each step that it took."""
        return [
            (row["to_status"], row["reason"]) for row in self.rows(HISTORY) if row["session_id"] == session_id
        ]

    def containers(self) -> list[Row]:
        """Those of this installation on engines that answer, with the number of their engine as "Engine"."""
        found: list[Row] = []
        for number, engine in enumerate(self._engines):
            try:
                with engine.client() as client:
                    there = client.containers(all=True, filters={"label": [self._ours]})
                found += [{**row, "Engine": number} for row in there]
            except (docker.errors.DockerException, requests.RequestException, OSError):
                continue
        return found

    def wait_until_settled(self, deadline_s: float = SETTLED_S) -> None:
        """Every live session runs in exactly one container, and nothing else is there."""

        seen: list[str] = []

        def has_settled() -> bool:
            seen[:] = self.unsettled()
            return not seen

        try:
            wait_until(has_settled, deadline_s=deadline_s, interval_s=0.2)
        except AssertionError:
            raise AssertionError("not settled:\n" + "\n".join(seen)) from None

    def unsettled(self) -> list[str]:
        """What is not yet as it must be in the end."""
        sessions = {row["id"]: row for row in self.rows()}
        containers = [row for row in self.containers() if SESSION in row["Labels"]]
        running = Counter(row["Labels"][SESSION] for row in containers if row["State"] == "running")
        live = {key for key, row in sessions.items() if row["status"] not in ENDED}
        return [
            *(f"{row['name']} is {row['status']}" for row in sessions.values()
              if row["status"] not in ENDED | {"RUNNING"}),
            *(f"{sessions[key]['name']} is {sessions[key]['status']} in {running[key]} containers"
              for key in live if running[key] != 1),
            *(f"a container of the session {row['Labels'][SESSION]}, which is not live: {row['Names']}"
              for row in containers if row["Labels"][SESSION] not in live),
            *self._leftovers(live),
        ]  # fmt: skip

    def _leftovers(self, live: set[str]) -> Iterator[str]:
        """Networks and volumes of sessions that are not live, helpers that nobody waits for."""
        for engine in self._engines:
            with engine.client() as client:
                filters = {"label": [self._ours]}
                things = [
                    *client.networks(filters=filters),
                    *(client.volumes(filters=filters)["Volumes"] or []),
                ]
                others = client.containers(all=True, filters=filters)
                helpers = [row for row in others if SESSION not in row["Labels"]]
            for thing in things:
                if MOORING in thing["Labels"]:
                    continue  # made ahead, for no session yet; see tests/db/sessions_app/launch/test_network_pool.py
                if thing["Labels"].get(SESSION, next(iter(live), "")) not in live:
                    yield f"left over: {thing['Name']}"
            yield from (
                f"a helper is left over: {row['Names']}"
                for row in helpers
                if row["Labels"].get(ROLE) not in LASTING
            )

    def violations(self) -> list[str]:
        """What must never be, not even in the middle of a fault."""
        with self._connect() as connection:
            rows, history = ask(connection, SESSIONS), ask(connection, HISTORY)
            ledger = ask(connection, LEDGER, sorted(HOLDING))
        ended = {row["id"]: row for row in rows if row["status"] in ENDED}
        # Asked after the rows: what runs now although its session had ended before is not to be.
        strays = self.strays({key: row["name"] for key, row in ended.items()}, self.containers())
        names = Counter(row["name"] for row in rows if row["status"] not in ENDED)
        return [
            *(f"{count} live sessions are called {name}" for name, count in names.items() if count > 1),
            *strays,
            *(f"{row['name']} ended without a cause" for row in ended.values()
              if not row["status_reason"] or not row["status_message"]),
            *history_faults(history),
            *(f"ledger: {row}" for row in ledger
              if not row["occupied"] == row["held"] == row["asked"] or row["occupied"] > row["capacity"]),
        ]  # fmt: skip

    def strays(self, ended: dict[str, str], containers: Sequence[Row]) -> list[str]:
        """Containers that must not be there. `ended` is {id: name} of ended sessions."""
        running = [row["Labels"].get(SESSION, "") for row in containers if row["State"] == "running"]
        counts = Counter(row["Labels"].get(SESSION) for row in containers)
        return [
            *(
                f"{count} containers of the session {key}"
                for key, count in counts.items()
                if key and count > 1
            ),
            *(f"{ended[key]} had ended, and runs" for key in running if key in ended),
        ]


def ask(connection: Connection[Row], query: str, *parameters: object) -> list[Row]:
    return list(connection.execute(query, parameters or None).fetchall())  # type: ignore[arg-type]


def history_faults(history: Sequence[Row]) -> Iterator[str]:
    """Steps that the table of states does not have, and steps without a cause."""
    before: dict[str, str] = {}
    for row in history:
        key = row["session_id"]
        was = before.get(key, "")
        if row["from_status"] != was or row["to_status"] not in LEGAL.get(was, set()):
            yield f"{key} went from {row['from_status']} to {row['to_status']} after it was {was}"
        if not row["reason"]:
            yield f"{key} became {row['to_status']} without a cause"
        before[key] = row["to_status"]


class Watch:
    """Asks the observer for violations again and again, beside a test. A deadline may pass by as much as those who act on
    it need, or move along with a clock that is set."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._is_over = threading.Event()
        self._seen: dict[str, None] = {}
        self._overdue_since: dict[tuple[str, str], float] = {}
        self.looks = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> list[str]:
        """All violations that were seen."""
        self._is_over.set()
        self._thread.join(90)
        return [*self._seen, *self._observer.violations()]

    def _run(self) -> None:
        while not self._is_over.wait(WATCHED_EVERY_S):
            try:
                self._seen.update(dict.fromkeys(self._observer.violations()))
                self._look_at_deadlines()
                self.looks += 1
            except psycopg.Error:  # it is what this test takes away
                continue

    def _look_at_deadlines(self) -> None:
        now = time.monotonic()
        overdue = [(row["name"], row["status"]) for row in self._observer.rows() if row["is_overdue"]]
        self._overdue_since = {each: self._overdue_since.get(each, now) for each in overdue}
        for (name, status), since in self._overdue_since.items():
            if now - since > OVERDUE_S:
                self._seen[f"{name} is {status} long past its deadline"] = None
