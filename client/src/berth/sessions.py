"""Start sessions, wait for them, read their logs and stop them."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from berth.addresses import segment
from berth.decoding import Record, decode
from berth.errors import InvalidInput, NotFound, SessionEnded, WaitedTooLong
from berth.files import SessionFiles
from berth.following import follow_text
from berth.machine_models import Why
from berth.models import (
    ENDED_STATUSES,
    LIVE_STATUSES,
    App,
    Dependency,
    Ending,
    Image,
    MountRecord,
    Prospect,
    SessionCheck,
    SessionContainer,
    StartRange,
    Transition,
)
from berth.paging import iterate
from berth.process import Process, Result, open_process, run_process
from berth.transport import KEY_HEADER, Transport, new_key, parse_json

FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 2.0
SHORTEST_PREFIX = 4
SEARCHED = 1000
# Not sent, so that a server that does not know one of these fields accepts the request.
SERVER_DEFAULTS = {
    "personal_files": True,
    "priority": 0,
    "dependencies": [],
    "max_retries": 0,
    "requeues": False,
    "may_run_elsewhere": False,
    "linked_devices": False,
    "roles": [],
}

OnChange = Callable[["Session"], None]


@dataclass(frozen=True, slots=True)
class Mount:
    """Folder, by id or name, to mount in a session. An empty path means /home/work/<folder name>."""

    folder: str
    path: str = ""
    readonly: bool = False

    def to_json(self) -> dict[str, object]:
        told: dict[str, object] = {"folder": self.folder, "readonly": self.readonly}
        return told | ({"path": self.path} if self.path else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Record):
    """Session as of the time it was fetched; `refresh` fetches it again."""

    id: str
    name: str
    type: str
    status: str
    status_reason: str = ""
    status_message: str = ""
    exit_code: int | None = None
    owner: str = ""
    project: str = ""
    domain: str = ""
    resource_group: str = ""
    image: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    mounts: tuple[MountRecord, ...] = ()
    command: str = ""
    timeout_s: int | None = None
    priority: int = 0
    start_at: datetime | None = None
    pending_timeout_s: int | None = None
    dependencies: tuple[Dependency, ...] = ()
    max_retries: int = 0
    retry_count: int = 0
    requeues: bool = False
    callback_url: str = ""
    designated_agent: str = ""
    may_run_elsewhere: bool = False
    device_model: str = ""
    device_mem_bytes: int = 0
    device_api_version: int = 0
    device_share_mem_bytes: int = 0
    device_share_cores: int = 0
    linked_devices: bool = False
    isolation: str = ""
    placement_group: str = ""
    placement_rule: str = ""
    array: str | None = None
    array_index: int | None = None
    cluster_size: int = 1
    cluster_mode: str = ""
    containers: tuple[SessionContainer, ...] = ()
    queue_position: int | None = None
    agents: tuple[str, ...] = ()
    apps: tuple[App, ...] = ()
    created_at: datetime | None = None
    status_changed_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    deadline_at: datetime | None = None
    ending: Ending | None = None
    sessions: "Sessions" = field(repr=False, compare=False)

    @property
    def is_live(self) -> bool:
        return self.status not in ENDED_STATUSES

    @property
    def is_running(self) -> bool:
        return self.status == "RUNNING"

    def refresh(self) -> "Session":
        return self.sessions.get(self.id)

    def wait_running(self, timeout_s: float | None = None, on_change: OnChange | None = None) -> "Session":
        """Wait until the session runs, and return it.

        Raises SessionEnded if it ended instead, WaitedTooLong after `timeout_s`.
        """
        session = self.wait_for("RUNNING", *ENDED_STATUSES, timeout_s=timeout_s, on_change=on_change)
        if session.is_running:
            return session
        raise SessionEnded(
            f"The session “{session.name}” is {session.status.lower()}: "
            f"{session.status_message or session.status_reason}",
            hint=f"What happened: berth show {session.id[:8]}, berth logs {session.id[:8]}.",
        )

    def wait_ended(self, timeout_s: float | None = None, on_change: OnChange | None = None) -> "Session":
        """Wait until the session has ended in any way, and return it. Raises WaitedTooLong."""
        return self.wait_for(*ENDED_STATUSES, timeout_s=timeout_s, on_change=on_change)

    def logs(self, *, follow: bool = False, kernel: str = "main1") -> Iterator[bytes]:
        """Yield the log in pieces; with `follow`, until the session ends, over lost connections
        too.
        """
        return self.sessions.logs(self.id, follow=follow, kernel=kernel)

    def history(self) -> list[Transition]:
        """Return the status transitions, oldest first."""
        return list(iterate(self.sessions.transport, f"sessions/{self.id}/history/", Transition))

    @property
    def files(self) -> SessionFiles:
        """Files of the session, while it runs."""
        return SessionFiles(self.sessions.transport, self.id)

    def exec(
        self,
        *argv: str,
        input: bytes = b"",  # noqa: A002  the word of subprocess.run
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        kernel: str = "main1",
    ) -> Result:
        """Run a command to its end, without a shell: `session.exec("python", "-V").stdout`."""
        with self.open_process(*argv, env=env, cwd=cwd, kernel=kernel) as process:
            return run_process(process, input)

    def open_process(
        self,
        *argv: str,
        tty: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        size: tuple[int, int] = (80, 24),
        kernel: str = "main1",
    ) -> Process:
        """Start an interactive command; closing the result ends it. `size` is (columns, rows)."""
        transport = self.sessions.transport
        return open_process(transport, self.id, argv, tty=tty, env=env, cwd=cwd, size=size, kernel=kernel)

    def stop(self) -> "Session":
        """Request termination. Idempotent."""
        return self.sessions.stop(self.id)

    def extend(self) -> "Session":
        """Extend the session's limits, as far as policies allow."""
        return self.sessions.extend(self.id)

    def change_priority(self, priority: int) -> "Session":
        """Change the queue priority of a pending session, as far as policies allow."""
        return self.sessions.change_priority(self.id, priority)

    def wait_for(
        self, *statuses: str, timeout_s: float | None = None, on_change: OnChange | None = None
    ) -> "Session":
        """Wait until the session has one of `statuses`, and return it.

        `on_change` is called with each changed state. Raises WaitedTooLong.
        """
        session, pause_s = self, FIRST_LOOK_S
        end = time.monotonic() + timeout_s if timeout_s is not None else None
        while session.status not in statuses:
            if end is not None and time.monotonic() >= end:
                raise WaitedTooLong(
                    f"The session “{session.name}” is {session.status.lower()} still, after {timeout_s:g} s.",
                    hint=session.status_message,
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.3, LONGEST_LOOK_S)
            fresh = session.refresh()
            if on_change and _progress(fresh) != _progress(session):
                on_change(fresh)
            session = fresh
        return session


class Sessions:
    """Sessions, as `client.sessions`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def start(
        self,
        image: str | Image,
        *,
        project: str,
        name: str = "",
        cpu: float | str = 1,
        mem: str | int = "1g",
        resources: Mapping[str, str | int | float] | None = None,
        command: str = "",
        environment: Mapping[str, str] | None = None,
        mounts: Sequence[Mount | str] = (),
        resource_group: str = "",
        timeout_s: int | None = None,
        personal_files: bool = True,
        priority: int = 0,
        start_at: datetime | str = "",
        pending_timeout_s: int | None = None,
        after: Mapping[str, str] | None = None,
        max_retries: int = 0,
        requeues: bool = False,
        callback_url: str = "",
        designated_agent: str = "",
        may_run_elsewhere: bool = False,
        device_model: str = "",
        device_mem: str | int = "",
        device_api: str = "",
        linked_devices: bool = False,
        isolation: str = "",
        placement_group: str = "",
        placement_rule: str = "",
        array: str = "",
        cluster_size: int = 1,
        cluster_mode: str = "",
        roles: Sequence[Mapping[str, Any]] = (),
        idempotency_key: str = "",
    ) -> Session:
        """Submit a session request and return the session at once, still pending.

        With a `command` it is a batch session.

        - `image`: an image of the portal, or its exact reference or id.
        - `name`: generated if empty.
        - `cpu`, `mem`, `resources`: amounts such as `cpu=0.5`, `mem="4g"`, `resources={"shm":
        "1g"}`.
        - `personal_files`: False leaves out your dotfiles and start-up script.
        - `priority`: the higher goes first. Above 0 a policy must allow it.
        - `start_at`: earliest start, an aware datetime or text like "2027-01-31T08:00+01:00".
        - `pending_timeout_s`: cancels the session if it is still pending after so many seconds.
        - `after`: sessions or arrays, by id or name, that must end first, with the required
        outcome: `{"prepare": "success"}`, or "any", or "failure".
        - `max_retries`: how often a failed command is run again.
        - `requeues`: runs the command again when its agent is lost.
        - `designated_agent`: name of the agent to run on. With `may_run_elsewhere` it is only
        preferred.
        - accelerators are `resources`: `{"cuda": 2}`, or `{"gpu": 2}` where the group has one kind;
        a part of one `{"cuda": 0.5}` or `{"cuda.mem": "20g", "cuda.cores": 30}`; MIG slices
        `{"mig": {"1g.10gb": 2}}`.
        - `device_model`: accelerator model, as in `client.agents()`, or a part of its name.
        - `device_mem`: least memory of each accelerator, such as "40g"; `device_api`: least version of
        CUDA or ROCm, such as "12.4".
        - `linked_devices`: True if the accelerators must be linked with each other.
        - `isolation`: least isolation from others on the same device: "cooperative", "server",
        "driver" or "hardware".
        - `placement_rule`: "spread" or "pack" relative to your other sessions of the same
        `placement_group`, or to the other elements of the array; "strict_" before it forbids other
        placements.
        - `array`: creates all elements of an array like "1-100%10" and returns the first; see
        `client.arrays`.
        - `cluster_size`: number of equal containers: main1, sub1, sub2…; all start, or none.
        - `cluster_mode`: "one_machine" (default), "anywhere" or "spread" (each on another machine).
        - `roles`: containers beside main1 that differ from it, such as
        `{"name": "worker", "count": 2, "resources": {"cpu": 4, "mem": "8g"}}`.
        - `callback_url`: receives a signed POST when the session starts, is retried, and ends.
        - `idempotency_key`: two requests with one key within a day create one session.

        Raises InvalidInput, Refused.
        """
        image = image if isinstance(image, str) else image.reference
        body: dict[str, Any] = {
            "name": name or generated_name(image),
            "project": project,
            "image": image,
            "type": "batch" if command else "interactive",
            "resources": {"cpu": cpu, "mem": mem, **(resources or {})},
            "environment": dict(environment or {}),
            "mounts": [(Mount(one) if isinstance(one, str) else one).to_json() for one in mounts],
            "command": command,
            "resource_group": resource_group,
            "timeout_s": timeout_s,
            "personal_files": personal_files,
            "priority": priority,
            "start_at": _instant(start_at),
            "pending_timeout_s": pending_timeout_s,
            "dependencies": [{"session": one, "when": when} for one, when in (after or {}).items()],
            "max_retries": max_retries,
            "requeues": requeues,
            "callback_url": callback_url,
            "designated_agent": designated_agent,
            "may_run_elsewhere": may_run_elsewhere,
            "device_model": device_model,
            "device_mem": device_mem,
            "device_api": device_api,
            "linked_devices": linked_devices,
            "isolation": isolation,
            "placement_group": placement_group,
            "placement_rule": placement_rule,
            "array": array,
            "cluster_size": cluster_size if cluster_size != 1 else None,
            "cluster_mode": cluster_mode,
            "roles": [dict(role) for role in roles],
        }
        body = {
            field: value
            for field, value in body.items()
            if value not in ("", None) and value != SERVER_DEFAULTS.get(field)
        }
        return self.create(body, idempotency_key=idempotency_key)

    def check(self, body: Mapping[str, Any]) -> SessionCheck:
        """Check a session request (fields of the REST API) without submitting it.

        Raises the errors that `create` would raise.
        """
        answer = self.transport.request("POST", "sessions/check/", json=dict(body))
        return decode(SessionCheck, parse_json(answer))

    def expected_start(self, session_id: str) -> StartRange | None:
        """Estimate when a pending session starts; None if it cannot be estimated."""
        return self.prospect(session_id).expected_start

    def prospect(self, session_id: str) -> Prospect:
        """Return the outlook of a pending session: expected start, and changes that would start it."""
        return decode(Prospect, self.transport.get_json(f"sessions/{segment(session_id)}/expected-start/"))

    def why(self, session_id: str, *, at: datetime | str = "") -> Why:
        """Return why a session was pending over time, and at the instant `at` (with a time zone)."""
        params = {"at": _instant(at)} if at else {}
        return decode(Why, self.transport.get_json(f"sessions/{segment(session_id)}/why/", **params))

    def create(self, body: Mapping[str, Any], *, idempotency_key: str = "") -> Session:
        """Submit a session request with the fields of the REST API.

        Example: `{"name": …, "project": …, "image": …, "resources": …}`.
        """
        headers = {KEY_HEADER: idempotency_key} if idempotency_key else new_key()
        return self._one(self.transport.request("POST", "sessions/", json=dict(body), headers=headers))

    def get(self, session_id: str) -> Session:
        """Return the session of this id. Raises NotFound."""
        return self._one(self.transport.request("GET", f"sessions/{segment(session_id)}/"))

    def find(self, text: str) -> Session:
        """Find a session by id, by the beginning of a recent id, or by name (live ones first).

        Among ended sessions returns the newest. Raises NotFound, and InvalidInput if several live
        sessions match.
        """
        if _is_id(text):
            return self.get(text.lower())
        named = [session for session in self.list(name=text) if session.name == text]
        candidates = [session for session in named if session.is_live] or named[:1]
        if not candidates and len(text) >= SHORTEST_PREFIX:
            recent = islice(self.list(), SEARCHED)
            candidates = [session for session in recent if session.id.startswith(text.lower())]
        if not candidates:
            raise NotFound(f"There is no session “{text[:80]}”.", hint="Which there are: berth ls --all.")
        if len(candidates) > 1:
            ids = ", ".join(session.id[:8] for session in candidates)
            raise InvalidInput(
                f"Several sessions are called “{text[:80]}”: {ids}.", hint="Use one of the ids."
            )
        return candidates[0]

    def list(
        self,
        *,
        live: bool = False,
        status: Sequence[str] = (),
        project: str = "",
        name: str = "",
        type: str = "",  # noqa: A002  the word of the portal
    ) -> Iterator[Session]:
        """Yield the sessions that you may see, newest first."""
        wanted = [*status, *(LIVE_STATUSES if live else ())]
        filters = {"status": wanted or None, "project": project or None, "name": name or None}
        given = {"sessions": self}
        return iterate(self.transport, "sessions/", Session, given=given, **filters, type=type or None)

    def stop(self, session_id: str) -> Session:
        return self._one(self.transport.request("DELETE", f"sessions/{segment(session_id)}/"))

    def extend(self, session_id: str) -> Session:
        path = f"sessions/{segment(session_id)}/extend/"
        return self._one(self.transport.request("POST", path, headers=new_key()))

    def change_priority(self, session_id: str, priority: int) -> Session:
        path = f"sessions/{segment(session_id)}/priority/"
        return self._one(self.transport.request("PUT", path, json={"priority": priority}))

    def logs(self, session_id: str, *, follow: bool = False, kernel: str = "main1") -> Iterator[bytes]:
        path, params = f"sessions/{segment(session_id)}/logs/", {"kernel": kernel}
        if follow:
            return follow_text(self.transport, path, {**params, "follow": "1"})
        return self._read_log(path, params)

    def _read_log(self, path: str, params: Mapping[str, str]) -> Iterator[bytes]:
        with self.transport.stream("GET", path, params=params) as answer:
            yield from answer.iter_bytes()

    def _one(self, answer: Any) -> Session:
        return decode(Session, parse_json(answer), sessions=self)


def generated_name(image: str) -> str:
    """Return a generated session name for this image, like "python-3f9a" for python."""
    base = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    kept = "".join(letter for letter in base if letter.isascii() and letter.isalnum())[:40]
    return f"{kept or 'session'}-{uuid.uuid4().hex[:4]}"


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _progress(session: Session) -> tuple[object, ...]:
    return session.status, session.status_message, session.queue_position


def _instant(at: datetime | str) -> str:
    return at if isinstance(at, str) else at.isoformat()
