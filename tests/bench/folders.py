"""Measure uploads and downloads of folders against nginx (Debian's, PUT by its dav module), with curl,
on the same disk: one large file, 20 at once, and many small ones. Needs nginx-light and curl.

Berth syncs what it acknowledges; nginx leaves it to the kernel. So `sync` is run after each turn of
both, within the measured time.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from portal.ops.setup.env_file import free_port
from tests import factories
from tests.bench.frame import Measure, Options, Row, at_least, measure_in_turns, never_above, never_below
from tests.bench.gateway_stage import web_process
from tests.bench.own_django import own_database
from tests.bench.processes import is_listening, rss_mib, running, wait_until_up
from tests.factories_folders import make_folder, make_storage_host

LARGE_BYTES = 2 * 10**9
EACH_OF_20_BYTES = 10**8
AT_ONCE = 20
SMALL_FILES = 5000
SMALL_BYTES = 2000
BUNDLE_FILES = 250

NGINX = """
daemon off; error_log stderr; pid {root}/nginx.pid; worker_processes 1; user root;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; client_max_body_size 0;
  client_body_temp_path {root}/body; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
  server {{ listen 127.0.0.1:{port}; root {root}/files; location / {{ dav_methods PUT DELETE; }} }}
}}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """Where files are sent, with what headers of curl, and the server's process."""

    url: str
    headers: tuple[str, ...]
    pid: int


def bench(options: Options) -> list[Row]:
    with contextlib.ExitStack() as cleanup:
        root = Path(tempfile.mkdtemp(prefix="bench-folders-", dir=Path("var").absolute()))
        cleanup.callback(shutil.rmtree, root, ignore_errors=True)
        large = make_source(cleanup, "large", LARGE_BYTES)
        part = make_source(cleanup, "part", EACH_OF_20_BYTES)
        ours = cleanup.enter_context(portal(root))
        peer = cleanup.enter_context(nginx(root))
        for server in (ours, peer):  # the first request of a process is slower
            put(server, part, "warm")
            get(server, "warm")
        return measure_in_turns(measures(ours, peer, large, part), options)


def measures(ours: Server, peer: Server, large: Path, part: Path) -> list[Measure]:
    def speed(transfer: Callable[[Server], None], size_bytes: int) -> Callable[[Server], Callable[[], float]]:
        return lambda server: lambda: size_bytes / 1e6 / timed(lambda: transfer(server))

    up = speed(lambda server: put(server, large, "large"), LARGE_BYTES)
    down = speed(lambda server: get(server, "large"), LARGE_BYTES)
    many_up = speed(
        lambda server: at_once(server, lambda name: upload(server, part, name)), AT_ONCE * EACH_OF_20_BYTES
    )
    many_down = speed(
        lambda server: at_once(server, lambda name: download(server, name)), AT_ONCE * EACH_OF_20_BYTES
    )
    small = bundles()
    return [
        Measure("2 GB up", "MB/s", up(ours), up(peer), at_least(0.7)),
        Measure("2 GB down", "MB/s", down(ours), down(peer), at_least(0.7)),
        Measure("20 × 100 MB up at once", "MB/s", many_up(ours), many_up(peer), at_least(0.7)),
        Measure("20 × 100 MB down at once", "MB/s", many_down(ours), many_down(peer), at_least(0.7)),
        Measure("memory growth, 2 GB up", "MB", growth(ours, up(ours)), None, never_above(20)),
        Measure("memory growth, 2 GB down", "MB", growth(ours, down(ours)), None, never_above(20)),
        Measure("memory growth, 20 up at once", "MB", growth(ours, many_up(ours)), None, never_above(20)),
        Measure("memory growth, 20 down at once", "MB", growth(ours, many_down(ours)), None, never_above(20)),
        Measure("small files in bundles", "files/s", lambda: send_bundles(ours, small), None, never_below(200)),
    ]  # fmt: skip


@contextlib.contextmanager
def portal(root: Path) -> Iterator[Server]:
    with own_database() as environment:
        make_storage_host(root)
        owner = factories.make_user()
        folder, token = make_folder(owner), factories.make_token(owner)
        with web_process(environment) as (port, pid):
            url = f"http://localhost:{port}/api/v1/folders/{folder.pk}/files/"
            yield Server(url, ("-H", f"Authorization: Bearer {token}"), pid)


@contextlib.contextmanager
def nginx(root: Path) -> Iterator[Server]:
    program, port = shutil.which("nginx", path="/usr/sbin:/usr/bin"), free_port()
    if program is None:
        raise SystemExit("This bench needs nginx: apt-get install nginx-light.")
    (root / "files").mkdir()
    (root / "nginx.conf").write_text(NGINX.format(root=root, port=port))
    with running([program, "-p", str(root), "-c", str(root / "nginx.conf")], os.environ) as process:
        wait_until_up(process, lambda: is_listening(port))
        yield Server(f"http://localhost:{port}/", (), process.pid)


def make_source(cleanup: contextlib.ExitStack, name: str, size_bytes: int) -> Path:
    """Make a file in memory, so that reading it costs the same in every turn."""
    path = Path("/dev/shm") / f"berth-bench-{os.getpid()}-{name}"
    cleanup.callback(path.unlink, missing_ok=True)
    piece = os.urandom(10**6)
    with path.open("wb") as file:
        for _ in range(size_bytes // len(piece)):
            file.write(piece)
    return path


def timed(work: Callable[[], None]) -> float:
    os.sync()
    began = time.perf_counter()
    work()
    os.sync()
    return time.perf_counter() - began


def upload(server: Server, source: Path, name: str) -> subprocess.Popen[bytes]:
    return curl(server, "-T", str(source), server.url + name)


def download(server: Server, name: str) -> subprocess.Popen[bytes]:
    return curl(server, server.url + name)


def put(server: Server, source: Path, name: str) -> None:
    ended(upload(server, source, name))


def get(server: Server, name: str) -> None:
    ended(download(server, name))


def at_once(server: Server, begin: Callable[[str], subprocess.Popen[bytes]]) -> None:
    for process in [begin(f"part-{number}") for number in range(AT_ONCE)]:
        ended(process)


def curl(server: Server, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["curl", "-sS", "-f", "-o", "/dev/null", *server.headers, *arguments])


def ended(process: subprocess.Popen[bytes]) -> None:
    if process.wait() != 0:
        raise SystemExit(f"curl failed: {process.args!r}")


def growth(server: Server, measure: Callable[[], float]) -> Callable[[], float]:
    """Return a measure of how much more memory the server has at most while `measure` runs."""

    def run() -> float:
        before = most = rss_mib(server.pid)
        is_over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not is_over.wait(0.05):
                most = max(most, rss_mib(server.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            measure()
        finally:
            is_over.set()
            watcher.join()
        return (most - before) * 1.048576

    return run


def bundles() -> list[bytes]:
    made = []
    for first in range(0, SMALL_FILES, BUNDLE_FILES):
        files = (
            json.dumps({"path": f"d{number % 50}/{number}.txt", "size": SMALL_BYTES}).encode()
            + b"\n"
            + os.urandom(SMALL_BYTES)
            for number in range(first, first + BUNDLE_FILES)
        )
        made.append(b"".join(files))
    return made


def send_bundles(server: Server, made: list[bytes]) -> float:
    """Send them three at a time, as the page does; return files per second."""
    url = server.url.removesuffix("files/") + "bundles/"
    began, running_now = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, body in enumerate(made):
            path = Path(folder) / str(number)
            path.write_bytes(body)
            if len(running_now) == 3:
                ended(running_now.pop(0))
            running_now.append(
                curl(server, "--data-binary", f"@{path}", "-H", "Content-Type: application/octet-stream", url)
            )
        for process in running_now:
            ended(process)
    return SMALL_FILES / (time.perf_counter() - began)
