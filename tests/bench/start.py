"""From the request to RUNNING, against the bare engine with the same image, in turns."""

import json
import statistics
import subprocess
import time
import urllib.request
from typing import Any

from portal.ops.layout import Layout

ROUNDS = 10
DEADLINE_S = 60


def measure(layout: Layout) -> dict[str, float]:
    """Medians in seconds and their ratio. Needs a portal with demo people and the docker command."""
    first_run = json.loads(layout.first_run_file.read_text())
    token = next(user["token"] for user in first_run["users"] if user["role"] == "user")
    portal = Portal(first_run["url"], token)
    image = portal.call("GET", "images/")["results"][0]["reference"]
    bare, ours = [], []
    for number in range(ROUNDS):
        bare.append(time_bare(image))
        ours.append(time_session(portal, image, f"bench-{time.time_ns()}-{number}"))
    return {
        "bare docker run, median s": round(statistics.median(bare), 3),
        "submit to RUNNING, median s": round(statistics.median(ours), 3),
        "ratio": round(statistics.median(ours) / statistics.median(bare), 2),
    }


class Portal:
    """The REST API with a token."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api/v1/"
        self._token = token

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def time_bare(image: str) -> float:
    began_at = time.monotonic()
    command = ["docker", "run", "--rm", "-d", "--init", "--network", "bridge", image, "sleep", "60"]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    took_s = time.monotonic() - began_at
    subprocess.run(["docker", "rm", "-f", container], check=True, capture_output=True)
    return took_s


def time_session(portal: Portal, image: str, name: str) -> float:
    body = {"name": name[:60], "project": "demo", "image": image, "resources": {"cpu": 0.1, "mem": "256m"}}
    began_at = time.monotonic()
    path = f"sessions/{portal.call('POST', 'sessions/', body)['id']}/"
    wait_for(portal, path, {"RUNNING"}, poll_s=0.01)
    took_s = time.monotonic() - began_at
    portal.call("DELETE", path)
    wait_for(portal, path, {"TERMINATED"}, poll_s=0.1)
    return took_s


def wait_for(portal: Portal, path: str, wanted: set[str], *, poll_s: float) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while (session := portal.call("GET", path))["status"] not in wanted:
        if session["status"] == "ERROR" or time.monotonic() > give_up_at:
            raise SystemExit(f"The session is {session['status']}: {session['status_message']}")
        time.sleep(poll_s)
