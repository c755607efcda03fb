"""Doubles of storage systems: their REST APIs over TLS, with the answers that their documents show, and mounts
of a directory of this machine. They enforce no quota; a test reads `limits`, bytes by directory.
"""

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from tests.doubles.storage_servers import OWNER
from vfolders.storage.base import StorageBackend
from vfolders.storage.commands import Commands
from vfolders.storage.kinds import HostSettings, Input
from vfolders.storage.registry import KINDS

USED = 8 * 2**20
"""Bytes that every API reports for a directory."""


class SimulatedCommands(Commands):
    """Mounts `behind` instead of a share, keeps quotas of projects, and records all commands."""

    def __init__(self, behind: Path) -> None:
        self.behind = str(behind)
        self.done: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.projects: dict[str, str] = {}  # directory by project id
        self.limits: dict[str, int] = {}

    def has(self, program: str) -> bool:
        return True

    def run(self, words: Sequence[str], **options: Any) -> str:
        self.done.append(list(words))
        self.environments.append(options.get("environment") or {})
        match words[0]:
            case "mount" | "hadoop-fuse-dfs":
                subprocess.run(["mount", "--bind", self.behind, words[-1]], check=True)
            case "umount":
                return super().run(words)
            case "chattr":
                self.projects[words[2]] = Path(words[-1]).name
            case "setquota":
                name = self.projects.get(words[2], words[2])
                self.limits[name] = int(words[4]) * 1024
                if not self.limits[name]:
                    del self.limits[name]
        return ""


@dataclass
class Api:
    """State of a simulated API. `folder` is the directory of this machine that it serves."""

    folder: Path
    limits: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # directory by id
    requests: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Return the object to answer, or None for 404."""
        raise NotImplementedError

    def id_of(self, name: str) -> str:
        self.names[name] = name
        return name

    def make(self, name: str) -> None:
        (self.folder / name).mkdir(exist_ok=True)

    def remove(self, name: str) -> None:
        if (self.folder / name).is_dir():
            subprocess.run(["rm", "-rf", str(self.folder / name)], check=True)


class OneFs(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        name = path.rpartition("/")[2]
        if method == "GET":
            name = query["path"].rpartition("/")[2]
            row = {"id": name, "path": query["path"], "usage": {"logical": USED}}
            return {"quotas": [row] if name in self.limits else []}
        if method == "DELETE":
            return {} if self.limits.pop(name, None) else None
        if method == "POST":
            name = body["path"].rpartition("/")[2]
        self.limits[name] = body["thresholds"]["hard"]
        return {"id": name}


class Vast(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        name = path.rstrip("/").rpartition("/")[2]
        if method == "GET":
            row = {"id": query["path"].rpartition("/")[2], "path": query["path"], "used_capacity": USED}
            return [row] if row["id"] in self.limits else []
        if method == "DELETE":
            return {} if self.limits.pop(name, None) else None
        if method == "POST":
            name = body["path"].rpartition("/")[2]
        self.limits[name] = body["hard_limit"]
        return {"id": name}


class Ontap(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        volume = {"name": "berth", "uuid": "vol-1"}
        if path.startswith("/api/storage/volumes"):
            return {"records": [volume]}
        last = path.rpartition("/")[2]
        if path.startswith("/api/storage/qtrees"):
            if method == "POST":
                self.make(body["name"])
                self.names[body["name"]] = body["name"]
            if method == "DELETE":
                self.remove(last)
                self.names.pop(last, None)
            found = self.names.get(query.get("name", ""))
            return {"records": [{"id": found, "name": found, "volume": volume}] if found else []}
        if path.startswith("/api/storage/quota/reports"):
            name = query["qtree.name"]
            return {"records": [{"space": {"used": {"total": USED}}}] if name in self.limits else []}
        if method == "GET":
            name = query["qtree.name"]
            return {"records": [{"uuid": name}] if name in self.limits else []}
        if method == "DELETE":
            return {} if self.limits.pop(last, None) else None
        self.limits[body["qtree"]["name"] if method == "POST" else last] = body["space"]["hard_limit"]
        return {}


class Scale(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if "/jobs/" in path:
            return {"jobs": [{"jobId": 7, "status": "COMPLETED"}]}
        if path.endswith("/quotas"):
            if method == "GET":
                return {"quotas": [{"blockUsage": USED // 1024}]}
            limit = int(body["blockHardLimit"].removesuffix("K")) * 1024
            self.limits[body["objectName"]] = limit
            if not limit:
                del self.limits[body["objectName"]]
        elif method == "POST":
            self.make(body["filesetName"])
            self.names[body["filesetName"]] = body["filesetName"]
        else:
            name = path.split("/filesets/")[1].partition("/")[0]
            if name not in self.names:
                return None
            if method == "DELETE" and not path.endswith("/link"):
                self.remove(self.names.pop(name))
                self.limits.pop(name, None)
        return {"jobs": [{"jobId": 7, "status": "RUNNING"}]}


class Weka(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if path.endswith("/login"):
            return {"data": {"access_token": "t"}} if body["password"] == "hunter2" else None
        if path.endswith("/fileSystems"):
            return {"data": [{"name": "default", "uid": "fs-1"}]}
        inode = path.rpartition("/")[2]
        name = next(each.name for each in self.folder.iterdir() if str(each.stat().st_ino) == inode)
        if method == "PUT":
            self.limits[name] = body["hard_limit_bytes"]
        if method == "DELETE":
            return {} if self.limits.pop(name, None) else None
        return {"data": {"used_bytes": USED}} if name in self.limits else None


class Hdfs(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        name = path.rpartition("/")[2]
        if query["op"] == "GETCONTENTSUMMARY":
            return {"ContentSummary": {"length": USED}} if (self.folder / name).is_dir() else None
        quota = int(query["storagespacequota"])
        self.limits[name] = quota // 3
        if quota < 0:
            del self.limits[name]
        return {}


class FlashBlade(Api):
    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if path.endswith("/login"):
            return {}
        return {"items": [{"provisioned": 2**40, "space": {"virtual": USED}}]}


APIS: dict[str, Callable[[Path], Api]] = {
    "onefs": OneFs,
    "vast": Vast,
    "ontap": Ontap,
    "scale": Scale,
    "weka": Weka,
    "hdfs": Hdfs,
    "flashblade": FlashBlade,
}
SIMULATED = (*APIS, "nfs", "smb", "ext4", "xfs")


@contextmanager
def simulated(kind: str, directory: Path) -> Iterator[tuple[StorageBackend, dict[str, int]]]:
    """Yield a host of this kind on a double, and the limits that it was given."""
    behind = directory / "behind"
    behind.mkdir()
    commands = SimulatedCommands(behind)
    if kind not in APIS:
        yield host(kind, directory, commands), commands.limits
        return
    api = APIS[kind](behind)
    with serving(api, directory) as (address, authority):
        yield host(kind, directory, commands, api=address, authority=authority), api.limits


def host(kind: str, directory: Path, commands: Commands, **values: str) -> StorageBackend:
    """Return the backend of a host with an example for each setting that is not given."""
    found = KINDS[kind]
    examples = {
        each.name: "hunter2" if each.input is Input.SECRET else each.default or each.example or "berth"
        for each in found.settings
        if each.is_required
    }
    if "root" in examples:
        examples["root"] = str(directory / "root")
    checked = found.check({**examples, **values}, {})
    return found.open(HostSettings(checked, str(directory), str(directory / "mount"), OWNER, commands))


@contextmanager
def serving(api: Api, directory: Path) -> Iterator[tuple[str, str]]:
    """Serve the API over TLS; yield its address and the certificate of its authority."""
    certificate, key = directory / "server.pem", directory / "server.key"
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *words], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.server_address[1]}", certificate.read_text().strip()
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    api: ClassVar[Api]

    def handle_one(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.api.requests.append(f"{self.command} {address.path}")
        found = self.api.answer(self.command, address.path, dict(parse_qsl(address.query)), body)
        data = json.dumps({} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("x-auth-token", "t")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815  names of http.server

    def log_message(self, *args: Any) -> None:
        return
