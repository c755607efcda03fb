"""Builds the session image from its recipe, through the engine's API alone. Standard library only.

A build is one container of the base image that runs the recipe's install.sh and is committed. The recipe
and the machine's package settings are streamed into a tmpfs of that container: neither a docker command
nor BuildKit nor a shared file system is needed, and no setting of this machine gets into a layer.
"""

import contextlib
import hashlib
import io
import json
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from portal.ops import debian_base, machine_network
from portal.ops.console import speaker
from portal.ops.engine import ensure_engine
from portal.ops.engine_api import EngineClient, EngineRefused, EngineUnreachable
from portal.ops.errors import PreflightFailed

RECIPE = Path(__file__).resolve().parents[2] / "images" / "recipes" / "python"
LOCAL_BASE = f"berth/debian:{machine_network.SUITE}"
PULL_SILENCE_S = 20
BUILD_SILENCE_S = 300
SHOWN_PREFIX = "## "
SHOWN_DETAIL = re.compile(r"Get:|Unpacking |Setting up |Collecting |Downloading |Installing ")
SHOWN_EVERY_S = 5
TMPFS = {
    "/mnt": "mode=0755",
    "/tmp": "mode=1777,exec",
    "/root": "mode=0700",
    "/var/cache/apt": "mode=0755",
    "/var/lib/apt/lists": "mode=0755",
}

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe folder: its recipe.json, all its files, and the reference of the image that it makes."""

    settings: Mapping[str, Any]
    files: Mapping[str, bytes]
    digest: str

    @property
    def reference(self) -> str:
        return f"{self.settings['name']}:{self.settings['version']}-{self.digest[:12]}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "io.berth.role": "session-image",
            "io.berth.recipe": self.digest,
            "io.berth.title": self.settings["title"],
            "io.berth.description": self.settings["description"],
            "io.berth.icon": self.settings["icon"],
            "io.berth.readonly-root": str(self.settings.get("readonly_root", False)).lower(),
            "io.berth.apps": json.dumps(self.settings["apps"], separators=(",", ":")),
            **{f"io.berth.min.{slot}": amount for slot, amount in self.settings["minimum"].items()},
        }


def ensure_session_image(
    log: Log, data_dir: Path, *, address: str | None = None, recipe_folder: Path = RECIPE
) -> str:
    """The reference of the session image, built first where the engine does not have it.

    The tag holds a hash of the recipe: a changed recipe is another image, an unchanged one takes a few
    milliseconds. The whole output of a build goes to `data_dir`/logs/session-image.log. Raises
    PreflightFailed.
    """
    recipe = read_recipe(recipe_folder)
    client = EngineClient(address or ensure_engine(log))
    try:
        if _has_image(client, recipe.reference):
            return recipe.reference
        log(f"Building the session image {recipe.reference} (once, one to three minutes).")
        build = _Build(client, log, data_dir)
        base, is_borrowed = build.ensure_base(recipe.settings["base"])
        build.build_session_image(recipe, base)
        if is_borrowed:
            client.delete(f"/images/{base}")  # its layers live on in ours, and go with it
    except EngineUnreachable as error:
        raise PreflightFailed(
            f"The container engine stopped answering while the session image was built: {error}",
            "Check the engine, then run bin/up again.",
        ) from error
    except EngineRefused as error:
        raise PreflightFailed(
            f"The container engine refused a step of the session image: {error}",
            "Remove what it complains about, then run bin/up again.",
        ) from error
    log(f"The session image {recipe.reference} is ready.")
    return recipe.reference


def read_recipe(folder: Path) -> Recipe:
    """The recipe in a folder. Its digest covers each file's path and content, and nothing else."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return Recipe(settings=json.loads(files["recipe.json"]), files=files, digest=digest.hexdigest())


class _Build:
    """The steps that need the engine, a log and a place for files."""

    def __init__(self, client: EngineClient, log: Log, data_dir: Path) -> None:
        self._client = client
        self._log = log
        self._logs = data_dir / "logs"
        # Others may build on the same engine at the same time; a build that was killed is found again by the next one.
        own = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        self._container = f"berth-build-{own}"
        self._raw_tag = f"raw-{own}"

    def ensure_base(self, reference: str) -> tuple[str, bool]:
        """A base image on the engine, and whether it came only for this build."""
        if _has_image(self._client, LOCAL_BASE):
            return LOCAL_BASE, False
        if _has_image(self._client, reference):
            return reference, False
        self._log(f"Asking the registry for {reference}.")
        if self._pull(reference):
            return reference, True
        self._make_local_base()
        return LOCAL_BASE, False

    def build_session_image(self, recipe: Recipe, base: str) -> None:
        files = {f"recipe/{name}": content for name, content in recipe.files.items()}
        machine = machine_network.build_files(folder="/mnt/machine")
        files |= {f"machine/{name}": content for name, content in machine.items()}
        script = ". /mnt/machine/environment && cd /mnt/recipe && exec sh -eu install.sh"
        with self._finished_container(base, script, files):
            environment = [f"{name}={value}" for name, value in recipe.settings["environment"].items()]
            config = {
                "User": "work",
                "WorkingDir": recipe.settings["environment"]["HOME"],
                "Env": environment,
                "Cmd": ["bash"],
                "Labels": recipe.labels,
            }
            self._log("Saving the image.")
            repository, _, tag = recipe.reference.rpartition(":")
            query = {"container": self._container, "repo": repository, "tag": tag}
            self._client.post("/commit", query=query, body=config, timeout_s=600)

    def _pull(self, reference: str) -> bool:
        name, _, tag = reference.rpartition(":")
        query = {"fromImage": name, "tag": tag}
        try:
            for _ in self._client.messages("/images/create", query=query, timeout_s=PULL_SILENCE_S):
                pass
        except (EngineRefused, EngineUnreachable):
            self._log("No registry answers: making a base from Debian packages instead.")
            return False
        return True

    def _make_local_base(self) -> None:
        packages = debian_base.fetch_packages(self._client.get("/version")["Arch"], self._log)
        self._log(f"Unpacking {len(packages)} packages into a base image.")
        with tempfile.TemporaryFile() as root:
            debian_base.write_root_tar(packages, root)
            raw = self._import(root, tag=self._raw_tag)
        files = {f"packages/{name}": content for name, content in packages.items()}
        try:
            with (
                self._finished_container(raw, debian_base.SECOND_STAGE, files),
                tempfile.TemporaryFile() as root,
            ):
                self._client.download(f"/containers/{self._container}/export", root)
                self._import(root, tag=machine_network.SUITE)
        finally:
            self._client.delete(f"/images/{raw}")

    def _import(self, root: Any, *, tag: str) -> str:
        """One layer from a tar file; so a package that was unpacked twice is held once."""
        root.seek(0)
        repository = LOCAL_BASE.partition(":")[0]
        query = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": "LABEL io.berth.role=base-image"}
        for _ in self._client.messages("/images/create", query=query, body=root, timeout_s=BUILD_SILENCE_S):
            pass
        return f"{repository}:{tag}"

    @contextlib.contextmanager
    def _finished_container(self, image: str, script: str, files: Mapping[str, bytes]) -> Iterator[None]:
        """A container in which `script` has run well, with `files` under /mnt while it ran."""
        package = _tar(files)
        unpack = f"set -eu; head -c {len(package)} | tar -x -C /mnt --no-same-owner; {script}"
        self._client.delete(f"/containers/{self._container}", query={"force": "1", "v": "1"})
        body = {
            "Image": image,
            "User": "0:0",  # by number: the raw base has no list of users yet
            "Cmd": ["/bin/sh", "-c", unpack],
            "WorkingDir": "/",
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "Labels": {"io.berth.role": "image-build"},
            "HostConfig": {"NetworkMode": self._network(), "Tmpfs": TMPFS},
        }
        self._client.post("/containers/create", query={"name": self._container}, body=body)
        try:
            self._run(package)
            yield
        finally:
            self._client.delete(f"/containers/{self._container}", query={"force": "1", "v": "1"})

    def _run(self, package: bytes) -> None:
        attachment = self._client.attach(self._container, timeout_s=BUILD_SILENCE_S)
        try:
            self._client.post(f"/containers/{self._container}/start")
            attachment.write(package)
            last_lines = self._follow(attachment.lines())
        except OSError as error:
            raise EngineUnreachable(f"the build was silent for {BUILD_SILENCE_S} s") from error
        finally:
            attachment.close()
        status = self._client.post(f"/containers/{self._container}/wait")["StatusCode"]
        if status != 0:
            raise PreflightFailed(
                f"Building the session image failed (exit code {status}): {' | '.join(last_lines[-3:])}",
                f"Read {self._logs / 'session-image.log'}; mostly a package server did not answer. Then run bin/up "
                "again.",
            )

    def _follow(self, lines: Iterator[str]) -> list[str]:
        """Keeps every line in the log file, shows the steps and now and then a line in between; returns the last ones."""
        self._logs.mkdir(parents=True, exist_ok=True)
        last_lines: list[str] = []
        shown_at = time.monotonic()
        with (self._logs / "session-image.log").open("a", encoding="utf-8") as log_file:
            for line in lines:
                log_file.write(line + "\n")
                is_step, line = line.startswith(SHOWN_PREFIX), line.removeprefix(SHOWN_PREFIX).strip()
                if is_step or (SHOWN_DETAIL.match(line) and time.monotonic() - shown_at > SHOWN_EVERY_S):
                    self._log(line if is_step else f"… {line[:100]}")
                    shown_at = time.monotonic()
                if line:
                    last_lines = [*last_lines[-9:], line]
        return last_lines

    def _network(self) -> str:
        """The machine's own network, which reaches its package servers and a proxy on its loopback too."""
        options = self._client.get("/info", timeout_s=30).get("SecurityOptions") or []
        is_remapped = any(name in option for option in options for name in ("name=userns", "name=rootless"))
        return "bridge" if is_remapped else "host"


def _has_image(client: EngineClient, reference: str) -> bool:
    try:
        client.get(f"/images/{reference}/json")
    except EngineRefused as refusal:
        if refusal.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def _tar(files: Mapping[str, bytes]) -> bytes:
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return package.getvalue()


def main() -> int:
    """`python -m portal.ops.session_image DATA ENGINE`: what went wrong stands on stderr, the fix in its last line."""
    try:
        ensure_session_image(speaker("image"), Path(sys.argv[1]), address=sys.argv[2])
    except PreflightFailed as fault:
        sys.stderr.write(f"{fault.message}\n{fault.fix}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
