"""Engines of our own to be killed: containerd and dockerd with sockets, data and address pool of their own, beside the
machine's engine and without a word to it."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker

from portal.ops.services.supervisor import CHILD
from tests.engines import busybox_root
from tests.faults.cleanup import MARK, cgroup_of
from tests.waiting import wait_until

START_S = 90
NEW_IDENTITY = 23  # the version
IMAGE = "berth/faults:1"
APP_PORT = 9000
APP = {
    "name": "ticker",
    "title": "Ticker",
    "port": APP_PORT,
    "command": ["nc", "-ll", "-p", "{port}", "-e", "/bin/ticker"],
    "autostart": True,
}
# Serves HTTP over connections that stay open, and a websocket that says "tick" five times a second.
TICKER = r"""#!/bin/sh
end=$(printf '\r')
while :; do
    key= asked=
    while IFS= read -r line; do
        line=${line%"$end"}
        [ -n "$line" ] || break
        asked=yes
        case $line in [Ss]ec-[Ww]eb[Ss]ocket-[Kk]ey:*) key=${line#*: } ;; esac
    done
    [ -n "$asked" ] || exit 0
    if [ -n "$key" ]; then
        sum=$(printf '%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11' "$key" | sha1sum | cut -c1-40)
        accept=$(printf %s "$sum" | xxd -r -p | base64)
        printf 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
        printf 'Sec-WebSocket-Accept: %s\r\n\r\n' "$accept"
        while printf '\201\004tick'; do sleep 0.2; done
        exit 0
    fi
    printf 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nhere'
done
"""
# The walls of these engines are the machine's own, which they leave alone.
NFT = "#!/bin/sh\ncat >/dev/null\n"


class OwnEngine:
    """One containerd and one dockerd; `start` after `kill` takes up what was left."""

    def __init__(
        self,
        home: Path,
        name: str,
        *,
        has_live_restore: bool = False,
        disk_mib: int = 0,
        runtimes: Mapping[str, Path] | None = None,
    ) -> None:
        """With `disk_mib` its data have a small disk of their own. The first of `runtimes` is its default
        runtime instead of runc.
        """
        self.folder = home / name
        self.data = self.folder / "data"
        self.data.mkdir(parents=True)
        if disk_mib:
            size = f"size={disk_mib}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "berth-faults", self.data], check=True)
        self.socket = self.folder / "engine.sock"
        self.address = f"unix://{self.socket}"
        self._write_configuration(runtimes or {})
        self._home = home
        self._name = name
        self._has_live_restore = has_live_restore
        self._containerd: subprocess.Popen[bytes] | None = None
        self._dockerd: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._dockerd is not None
        return self._dockerd.pid

    def start(self) -> None:
        """Both run and answer."""
        if self._containerd is None or self._containerd.poll() is not None:
            self._containerd = self._spawn("containerd", *self._containerd_options())
        self.begin_start()
        wait_until(self.answers, deadline_s=START_S, interval_s=0.05)

    def begin_start(self) -> None:
        """dockerd begins to start; nobody waits for it."""
        (self.folder / "engine.pid").unlink(missing_ok=True)
        self._dockerd = self._spawn("dockerd", *self._dockerd_options())

    def answers(self) -> bool:
        assert self._dockerd is not None
        assert self._dockerd.poll() is None, f"dockerd ended:\n{self.log()}"
        try:
            with self.client() as client:
                return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False

    def kill(self) -> None:
        """dockerd dies by SIGKILL; containers and containerd are left to themselves."""
        assert self._dockerd is not None
        self._dockerd.send_signal(signal.SIGKILL)
        self._dockerd.wait(30)

    def stop(self) -> None:
        """dockerd ends in order: without live-restore its containers end with it."""
        assert self._dockerd is not None
        self._dockerd.send_signal(signal.SIGTERM)
        self._dockerd.wait(60)

    def hang(self) -> None:
        assert self._dockerd is not None
        self._dockerd.send_signal(signal.SIGSTOP)

    def fill_disk(self) -> None:
        """Not a byte is left."""
        with contextlib.suppress(OSError), (self.data / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(2**16))

    def free_disk(self) -> None:
        (self.data / "filler").unlink(missing_ok=True)

    def go_on(self) -> None:
        """A hung one goes on; one that is gone starts."""
        assert self._dockerd is not None
        if self._dockerd.poll() is None:
            self._dockerd.send_signal(signal.SIGCONT)
        else:
            self.start()

    def client(self) -> docker.APIClient:
        return client_of(self.address)

    def load_image(self) -> None:
        with self.client() as client:
            load_image(client)

    def remove_image(self) -> None:
        with self.client() as client, contextlib.suppress(docker.errors.ImageNotFound):
            client.remove_image(IMAGE, force=True)

    def log(self) -> str:
        """The end of what dockerd wrote."""
        return "\n".join((self.folder / "dockerd.log").read_text(errors="replace").splitlines()[-15:])

    def _spawn(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        """It dies with this process, however that dies."""
        path = shutil.which(program)
        assert path, f"The fault tests need {program}: apt-get install docker.io"
        with (self.folder / f"{program}.log").open("ab") as output:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(CHILD),
                    str(int(signal.SIGKILL)),
                    "-1",
                    "-1",
                    path,
                    *options,
                ],
                env={**os.environ, MARK: str(self._home), "TMPDIR": str(self.folder)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _containerd_options(self) -> tuple[str, ...]:
        folder = self.folder
        configuration = folder / "containerd.toml"
        configuration.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        places = ("--address", folder / "containerd.sock", "--root", self.data / "containerd")
        return tuple(
            str(word) for word in ("--config", configuration, *places, "--state", folder / "containerd")
        )

    def _dockerd_options(self) -> tuple[str, ...]:
        """Walls and addresses of the machine stay as they are: no rule of iptables, and no `bridge=none`, which would
        delete docker0, the machine's own engine's bridge; both find it as it is, and no container of ours joins it."""
        folder = self.folder
        given = {
            "config-file": folder / "daemon.json",
            "host": self.address,
            "containerd": folder / "containerd.sock",
            "data-root": self.data / "docker",
            "exec-root": folder / "exec",
            "pidfile": folder / "engine.pid",
            "cgroup-parent": cgroup_of(self._home),
            "exec-opt": "native.cgroupdriver=cgroupfs",
            "iptables": "false",
            "ip6tables": "false",
            "ip-masq": "false",
            "userland-proxy": "false",
            "live-restore": "true" if self._has_live_restore else "false",
            "shutdown-timeout": "3",
        }
        return tuple(f"--{name}={value}" for name, value in given.items())

    def _write_configuration(self, runtimes: Mapping[str, Path]) -> None:
        """An identity of its own. Engines before version 23 keep it in /etc, unless told otherwise; newer ones among
        their data, and begin with the one in /etc where there is none."""
        told: dict[str, Any] = (
            {"deprecated-key-path": str(self.folder / "key.json")} if engine_version() < NEW_IDENTITY else {}
        )
        if runtimes:
            told["runtimes"] = {name: {"path": str(path)} for name, path in runtimes.items()}
            told["default-runtime"] = next(iter(runtimes))
        (self.folder / "daemon.json").write_text(json.dumps(told))
        identity = self.data / "docker" / "engine-id"
        identity.parent.mkdir(exist_ok=True)
        identity.write_text(str(uuid4()))


def client_of(address: str) -> docker.APIClient:
    return docker.APIClient(address, timeout=30, version="auto")


def load_image(client: docker.APIClient) -> None:
    """A few megabytes of busybox, with an app."""
    labels = {
        "io.berth.role": "session-image",
        "io.berth.title": "Faults",
        "io.berth.apps": json.dumps([APP]),
    }
    changes = ["ENV PATH=/bin", *(f"LABEL {name}={json.dumps(text)}" for name, text in labels.items())]
    repository, _, tag = IMAGE.rpartition(":")
    client.import_image_from_data(image_root(), repository=repository, tag=tag, changes=changes)


def engine_version() -> int:
    """The first number of dockerd's version."""
    said = subprocess.run(["dockerd", "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", said)
    assert found, said
    return int(found.group(1))


def image_root() -> bytes:
    """The files of the image: busybox and the app."""
    root = io.BytesIO(busybox_root(Path(shutil.which("busybox") or "/bin/busybox")))
    with tarfile.open(fileobj=root, mode="a") as archive:
        for name, script in (("ticker", TICKER), ("nft", NFT)):
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.mode, entry.size = 0o755, len(script.encode())
            archive.addfile(entry, io.BytesIO(script.encode()))
    return root.getvalue()
