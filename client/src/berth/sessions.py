"""Sessions: ask for one, wait for it, read what it writes, stop it."""

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
    StartRange,
    Transition,
)
from berth.paging import iterate
from berth.process import Process, Result, open_process, run_process
from berth.transport import KEY_HEADER, Transport, json_of, new_key
from berth.waiting import Why

FIRST_LOOK_S, LONGEST_LOOK_S = 0.2, 2.0
SHORTEST_PREFIX = 4
SEARCHED = 1000

OnChange = Callable[["Session"], None]


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, by id or name, for a session. An empty path means /home/work/<folder name>."""

    folder: str
    path: str = ""
    readonly: bool = False

    def to_json(self) -> dict[str, object]:
        told: dict[str, object] = {"folder": self.folder, "readonly": self.readonly}
        return told | ({"path": self.path} if self.path else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Record):
    """A session as it was when it was asked for; `refresh` asks again."""

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
    placement_group: str = ""
    placement_rule: str = ""
    array: str | None = None
    array_index: int | None = None
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
        """The session once it runs. Raises SessionEnded when it never will, WaitedTooLong after `timeout_s`."""
        session = self.wait_for("RUNNING", *ENDED_STATUSES, timeout_s=timeout_s, on_change=on_change)
        if session.is_running:
            return session
        raise SessionEnded(
            f"The session “{session.name}” is {session.status.lower()}: "
            f"{session.status_message or session.status_reason}",
            hint=f"What happened: berth show {session.id[:8]}, berth logs {session.id[:8]}.",
        )

    def wait_ended(self, timeout_s: float | None = None, on_change: OnChange | None = None) -> "Session":
        """The session once it has ended, however that was. Raises WaitedTooLong."""
        return self.wait_for(*ENDED_STATUSES, timeout_s=timeout_s, on_change=on_change)

    def logs(self, *, follow: bool = False, kernel: str = "main1") -> Iterator[bytes]:
        """What it wrote, in pieces as they come; followed, until it ends, over lost connections too."""
        return self.sessions.logs(self.id, follow=follow, kernel=kernel)

    def history(self) -> list[Transition]:
        """Each change of status, oldest first."""
        return list(iterate(self.sessions.transport, f"sessions/{self.id}/history/", Transition))

    @property
    def files(self) -> SessionFiles:
        """Its files, while it runs."""
        return SessionFiles(self.sessions.transport, self.id)

    def exec(
        self,
        *argv: str,
        input: bytes = b"",  # noqa: A002  the word of subprocess.run
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        kernel: str = "main1",
    ) -> Result:
        """Run a command in it to its end, no shell between: `session.exec("python", "-V").stdout`."""
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
        """Start a command and talk with it; it ends with the returned object. `size` is (columns, rows)."""
        transport = self.sessions.transport
        return open_process(transport, self.id, argv, tty=tty, env=env, cwd=cwd, size=size, kernel=kernel)

    def stop(self) -> "Session":
        """Ask it to end; asking again changes nothing."""
        return self.sessions.stop(self.id)

    def extend(self) -> "Session":
        """Put off what would end it next, as far as policies allow."""
        return self.sessions.extend(self.id)

    def change_priority(self, priority: int) -> "Session":
        """Before or behind others that wait, as far as policies allow."""
        return self.sessions.change_priority(self.id, priority)

    def wait_for(
        self, *statuses: str, timeout_s: float | None = None, on_change: OnChange | None = None
    ) -> "Session":
        """The session once it has one of these; `on_change` hears what is new on the way. Raises WaitedTooLong."""
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
            if on_change and _news(fresh) != _news(session):
                on_change(fresh)
            session = fresh
        return session


class Sessions:
    """`client.sessions`."""

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
        placement_group: str = "",
        placement_rule: str = "",
        array: str = "",
        idempotency_key: str = "",
    ) -> Session:
        """Ask for a session; it is returned at once and waits for a machine. With a command it is a batch session.

        Without `personal_files` it begins without your dotfiles and your start-up script.

        The higher `priority` goes first; below 0 lets others go first, above 0 a policy must allow it.
        `start_at`: not before, an aware datetime or text like "2027-01-31T08:00+01:00". After `pending_timeout_s` without room
        it is cancelled. `after`: sessions or arrays, by id or name, that end before: `{"prepare": "success"}`, or "any", or "failure".
        A command is tried again `max_retries` times after a failure, and with `requeues` when its machine is lost.

        `designated_agent`: the name of the machine of its group that it waits for, or, if it `may_run_elsewhere`, that is tried first.
        `device_model`: of its accelerators, as `client.agents()` tells it.
        `placement_rule`: "spread" or "pack", with "strict_" before it where nothing else will do, beside your others that name the same
        `placement_group`, or the others of its array.
        With an `array` like "1-100%10" it asks for all of these batch sessions, and returns the first; `client.arrays` knows them all.

        `callback_url` is told by a signed POST when it starts, is tried again, and ends.

        An image is one that the portal told of, or its exact reference or id.

        Amounts as people write them: `cpu=0.5`, `mem="4g"`, `resources={"shm": "1g"}`. A name is made where none is
        given. Two requests with one `idempotency_key`, within a day, ask for one session. Raises InvalidInput, Refused.
        """
        image = image if isinstance(image, str) else image.reference
        body: dict[str, Any] = {
            "name": name or made_name(image),
            "project": project,
            "image": image,
            "type": "batch" if command else "interactive",
            "resources": {"cpu": cpu, "mem": mem, **(resources or {})},
            "environment": dict(environment or {}),
            "mounts": [(Mount(one) if isinstance(one, str) else one).to_json() for one in mounts],
        }
        chosen = {"command": command, "resource_group": resource_group, "timeout_s": timeout_s}
        chosen |= {"designated_agent": designated_agent, "device_model": device_model}
        body |= {"max_retries": max_retries} if max_retries else {}
        body |= {"requeues": True} if requeues else {}
        body |= {"callback_url": callback_url} if callback_url else {}
        body |= {"may_run_elsewhere": True} if may_run_elsewhere else {}
        body |= {"array": array} if array else {}
        placed = {"placement_group": placement_group, "placement_rule": placement_rule}
        body |= {name: value for name, value in placed.items() if value}
        if after:
            body["dependencies"] = [{"session": one, "when": when} for one, when in after.items()]
        chosen |= {"start_at": _instant(start_at), "pending_timeout_s": pending_timeout_s}
        body |= {} if personal_files else {"personal_files": False}
        body |= {"priority": priority} if priority else {}
        body |= {key: value for key, value in chosen.items() if value not in ("", None)}
        return self.create(body, idempotency_key=idempotency_key)

    def check(self, body: Mapping[str, Any]) -> SessionCheck:
        """What would come of a request in the words of the REST API; nothing is asked for. Raises what `create` would."""
        answer = self.transport.request("POST", "sessions/check/", json=dict(body))
        return decode(SessionCheck, json_of(answer))

    def expected_start(self, session_id: str) -> StartRange | None:
        """When a session that waits will probably start; None: nobody can know."""
        return self.prospect(session_id).expected_start

    def prospect(self, session_id: str) -> Prospect:
        """What may become of a session that waits, and what would let it start."""
        return decode(Prospect, self.transport.get_json(f"sessions/{segment(session_id)}/expected-start/"))

    def why(self, session_id: str, *, at: datetime | str = "") -> Why:
        """For what a session waited, and why it did so at a time that names its zone."""
        params = {"at": _instant(at)} if at else {}
        return decode(Why, self.transport.get_json(f"sessions/{segment(session_id)}/why/", **params))

    def create(self, body: Mapping[str, Any], *, idempotency_key: str = "") -> Session:
        """Ask for a session in the words of the REST API: `{"name": …, "project": …, "image": …, "resources": …}`."""
        headers = {KEY_HEADER: idempotency_key} if idempotency_key else new_key()
        return self._one(self.transport.request("POST", "sessions/", json=dict(body), headers=headers))

    def get(self, session_id: str) -> Session:
        """By id. Raises NotFound."""
        return self._one(self.transport.request("GET", f"sessions/{segment(session_id)}/"))

    def find(self, text: str) -> Session:
        """By id, by the beginning of the id of a recent one, or by name: live ones before the newest ended one.

        Raises NotFound, and InvalidInput where several live sessions fit.
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
        """Sessions that you may see, newest first."""
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
        return decode(Session, json_of(answer), sessions=self)


def made_name(image: str) -> str:
    """A name for a session of this image: "python-3f9a"."""
    base = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    kept = "".join(letter for letter in base if letter.isascii() and letter.isalnum())[:40]
    return f"{kept or 'session'}-{uuid.uuid4().hex[:4]}"


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _news(session: Session) -> tuple[object, ...]:
    return session.status, session.status_message, session.queue_position


def _instant(at: datetime | str) -> str:
    return at if isinstance(at, str) else at.isoformat()
