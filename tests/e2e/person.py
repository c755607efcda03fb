"""A user, with REST for the steps of a test that are not its subject."""

import itertools
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx

from tests.waiting import wait_until

ENDED = ("TERMINATED", "CANCELLED", "ERROR")
SMALL = {"cpu": 0.5, "mem": "512m"}
MILLI = 1000  # of a CPU


class Person:
    def __init__(self, url: str, email: str, password: str, token: str) -> None:
        self._url = url
        self.email = email
        self.password = password
        self.token = token
        self.storage_state: Any = None  # cookies of a sign-in by the page, once there was one
        self._http = httpx.Client(
            base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=20
        )
        self._numbers = itertools.count(1)

    def add_person(self, email: str) -> "Person":
        """As an administrator: somebody new, with a password that they may keep, and no token."""
        password = secrets.token_urlsafe(16)
        body = {"email": email, "password": password, "projects": ["demo"]}
        answer = self._http.post("users/", json=body)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        address = f"users/{answer.json()['id']}/sign-in/"
        answer = self._http.patch(address, json={"must_change_password": False})
        assert answer.status_code == httpx.codes.OK, answer.text
        return Person(self._url, email, password, token="")

    def start_session(self, **request: Any) -> str:
        """Ask for a small session; its id, at once."""
        body = {
            "name": f"s{next(self._numbers)}",
            "project": "demo",
            "image": self.images()[0]["reference"],
            "resources": SMALL,
            **request,
        }
        answer = self._http.post("sessions/", json=body)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        session_id: str = answer.json()["id"]
        return session_id

    def start_running_session(self, **request: Any) -> dict[str, Any]:
        return self.wait_for_status(self.start_session(**request), "RUNNING")

    def images(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("images/")["results"]
        return found

    def session(self, session_id: str) -> dict[str, Any]:
        return self._get(f"sessions/{session_id}/")

    def wait_for_status(self, session_id: str, *statuses: str, deadline_s: float = 45) -> dict[str, Any]:
        """The session once it has one of the statuses; AssertionError as soon as it has ended otherwise."""

        def reached() -> dict[str, Any] | None:
            session = self.session(session_id)
            if session["status"] in statuses:
                return session
            assert session["status"] not in ENDED, session
            return None

        return wait_until(reached, deadline_s=deadline_s, interval_s=0.1)  # type: ignore[return-value]

    def live_sessions(self) -> list[str]:
        """Ids of all that this person sees and that has not ended."""
        return [row["id"] for row in self._get("sessions/")["results"] if row["status"] not in ENDED]

    def samples(self, session_id: str) -> int:
        """How often it was measured what the session uses, lately."""
        told = self._get(f"sessions/{session_id}/metrics/?window=15m")
        return len(told["kernels"][0]["at"])

    def device_samples(self, session_id: str) -> int:
        """How often the accelerators of the session were measured, lately."""
        told = self._get(f"sessions/{session_id}/devices/?window=15m")
        return min((len(device["at"]) for device in told["devices"]), default=0)

    def devices(self) -> list[dict[str, Any]]:
        """As a superadmin: all accelerators."""
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": "devices/?page_size=100"}
        while page["next"]:
            page = self._get(page["next"])
            found += page["results"]
        return found

    def users(self) -> list[dict[str, Any]]:
        """Whom this person sees."""
        return list(self._get("users/")["results"])

    def projects(self) -> list[dict[str, Any]]:
        return list(self._get("projects/")["results"])

    def tokens(self) -> list[dict[str, Any]]:
        """Their API tokens."""
        return list(self._get("keypairs/")["results"])

    def change_resource_group(self, name: str, **columns: Any) -> None:
        """As a superadmin."""
        answer = self._http.patch(f"resource-groups/{self.resource_group(name)['id']}/", json=columns)
        assert answer.status_code == httpx.codes.OK, answer.text

    def resource_group(self, name: str) -> dict[str, Any]:
        groups: list[dict[str, Any]] = self._get("resource-groups/")["results"]
        return next(each for each in groups if each["name"] == name)

    def reserve(self, group_id: int, **reservation: Any) -> dict[str, Any]:
        """As a superadmin."""
        answer = self._http.post(f"resource-groups/{group_id}/reservations/", json=reservation)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def agents(self) -> dict[str, dict[str, Any]]:
        """Return the machines by name."""
        return {each["name"]: each for each in self._get("agents/?page_size=100")["results"]}

    def change_agent_state(self, name: str, state: str, **maintenance: str) -> None:
        """As a superadmin."""
        body = {"state": state, **maintenance}
        self._http.post(f"agents/{self.agents()[name]['id']}/state/", json=body).raise_for_status()

    def make_tick(self) -> dict[str, Any]:
        """Return a tick of the first resource group that left a session waiting: two ask for all of the machine."""
        (machine,) = self._get("agents/")["results"]
        for _ in range(2):
            self.start_session(resources={**SMALL, "cpu": machine["capacity"]["cpu"] / MILLI})

        def kept() -> dict[str, Any] | None:
            ticks = self._get("resource-groups/1/ticks/")["results"]
            return next((tick for tick in ticks if tick["waiting"]), None)

        return wait_until(kept, deadline_s=45, interval_s=0.1)  # type: ignore[return-value]

    @contextmanager
    def reservation(self) -> Iterator[dict[str, Any]]:
        """As a superadmin: of the machine, far ahead, until the block ends."""
        (machine,) = self._get("agents/")["results"]
        begins = datetime.now(UTC) + timedelta(days=300)
        hours = {"starts_at": begins.isoformat(), "ends_at": (begins + timedelta(hours=1)).isoformat()}
        made = self.reserve(1, name="Course", agents=[machine["name"]], **hours)
        yield made
        self._http.delete(f"resource-groups/1/reservations/{made['id']}/").raise_for_status()

    @contextmanager
    def limit(self) -> Iterator[dict[str, Any]]:
        """As a superadmin: of the first resource group, and more than anybody asks for, until the block ends."""
        hours = {"days": [1, 2, 3, 4, 5], "begins": "08:00", "ends": "18:00", "time_zone": "Europe/Berlin"}
        limit = {"name": "By day", "session_types": ["batch"], "each": {"cpu": 100_000}, **hours}
        self._http.patch("resource-groups/1/", json={"limits": [limit]}).raise_for_status()
        yield limit
        self._http.patch("resource-groups/1/", json={"limits": []}).raise_for_status()

    def prioritize(self, session_id: str, priority: int) -> None:
        body = {"priority": priority}
        self._http.put(f"sessions/{session_id}/priority/", json=body).raise_for_status()

    def stop_session(self, session_id: str) -> None:
        self._http.delete(f"sessions/{session_id}/").raise_for_status()

    def end_session(self, session_id: str) -> dict[str, Any]:
        """Stop it and wait until nothing of it is left."""
        self.stop_session(session_id)
        return self.wait_for_status(session_id, *ENDED)

    def make_folder(self, name: str, **files: str) -> str:
        """A folder of one's own with these files; its id."""
        answer = self._http.post("folders/", json={"name": name})
        assert answer.status_code == httpx.codes.CREATED, answer.text
        folder_id: str = answer.json()["id"]
        for file_name, text in files.items():
            self.put_file(folder_id, file_name, text)
        return folder_id

    def share_folder(self, folder_id: str, *, friend: str, file: str) -> None:
        """Invite a friend, share with the project “demo”, and make a public link to a file."""
        for path, body in (
            ("shares", {"person": friend, "right": "write"}),
            ("shares", {"project": "demo", "right": "read"}),
            ("links", {"path": file, "max_downloads": 20}),
        ):
            answer = self._http.post(f"folders/{folder_id}/{path}/", json=body)
            assert answer.status_code == httpx.codes.CREATED, answer.text

    def put_file(self, folder_id: str, name: str, text: str | bytes) -> None:
        url = f"folders/{folder_id}/files/{quote(name)}"
        self._http.put(
            url, content=text, headers={"Content-Type": "application/octet-stream"}
        ).raise_for_status()

    def read_file(self, folder_id: str, name: str) -> bytes:
        answer = self._http.get(f"folders/{folder_id}/files/{name}")
        answer.raise_for_status()
        return answer.content

    def _get(self, path: str) -> Any:
        answer = self._http.get(path)
        answer.raise_for_status()
        return answer.json()
