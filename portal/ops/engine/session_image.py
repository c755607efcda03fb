"""Builds the session image from its recipe through the engine's API. Runs in .venv.

A build is a container of the base image that runs the recipe's install.sh and is committed. The
recipe and the machine's package settings are copied into a volume of that container, which is
removed with it: no docker command, BuildKit or shared file system is needed, and no setting of this
machine gets into a layer.
"""

import contextlib
import io
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException, ImageNotFound
from docker.models.containers import Container
from docker.types import LogConfig, Mount

from portal.ops.console import speaker
from portal.ops.engine import build_network, debian_base
from portal.ops.engine.image_recipe import RECIPE, Recipe, read_recipe
from portal.ops.engine.install import ensure_engine
from portal.ops.engine.objects import build_container, build_id, connect, remove_container
from portal.ops.errors import PreflightFailed, exit_code_for
from portal.ops.paths import find_layout
from portal.ops.setup.env_file import read_env

LOCAL_BASE = f"berth/debian:{build_network.SUITE}"
CALL_TIMEOUT_S = 600  # a commit writes all installed files
BUILD_LIMIT_S = 1800
ENGINE_FAULTS = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError)
SHOWN_PREFIX = "## "
SHOWN_DETAIL = re.compile(r"Get:|Unpacking |Setting up |Collecting |Downloading |Installing ")
SHOWN_EVERY_S = 5
TMPFS = {
    "/tmp": "mode=1777,exec",
    "/root": "mode=0700",
    "/var/cache/apt": "mode=0755",
    "/var/lib/apt/lists": "mode=0755",
}

Log = Callable[[str], None]


def ensure_session_image(
    log: Log, data_dir: Path, *, address: str | None = None, recipe_folder: Path = RECIPE
) -> str:
    """Return the reference of the session image; build it first if the engine lacks it.

    The tag contains a hash of the recipe: a changed recipe is another
    image, an unchanged one takes a few milliseconds. Build output
    goes to `data_dir`/logs/session-image.log. Raises PreflightFailed.
    """
    recipe = read_recipe(recipe_folder)
    address = address or ensure_engine(log)
    try:
        with contextlib.closing(connect(address, timeout_s=CALL_TIMEOUT_S)) as engine:
            if not _has_image(engine, recipe.reference):
                log(f"Building the session image {recipe.reference} (once, one to three minutes).")
                _Build(engine, log, data_dir).build(recipe)
                log(f"The session image {recipe.reference} is ready.")
    except APIError as error:
        raise PreflightFailed(
            f"The container engine refused a step of the session image: {error.explanation or error}",
            "Remove what it complains about, then run bin/up again.",
        ) from error
    except ENGINE_FAULTS as error:
        raise PreflightFailed(
            f"The container engine stopped answering while the session image was built: {error}",
            "Check the engine, then run bin/up again.",
        ) from error
    return recipe.reference


class _Build:
    """Build steps that need the engine, a log and a folder for files."""

    def __init__(self, engine: docker.DockerClient, log: Log, data_dir: Path) -> None:
        self._engine = engine
        self._log = log
        self._logs = data_dir / "logs"
        self._container = build_container(data_dir)
        self._raw_tag = f"raw-{build_id(data_dir)}"

    def build(self, recipe: Recipe) -> None:
        base, is_borrowed = self._ensure_base(recipe.settings["base"])
        self._build_on(base, recipe)
        if is_borrowed:
            self._engine.images.remove(base)  # our image keeps its layers

    def _ensure_base(self, reference: str) -> tuple[str, bool]:
        """Return a base image on the engine, and True if it was pulled only for this build."""
        if _has_image(self._engine, LOCAL_BASE):
            return LOCAL_BASE, False
        if _has_image(self._engine, reference):
            return reference, False
        self._log(f"Asking the registry for {reference}.")
        try:
            self._engine.images.pull(reference)
        except ENGINE_FAULTS:
            self._log("No registry answers: making a base from Debian packages instead.")
            self._make_local_base()
            return LOCAL_BASE, False
        return reference, True

    def _build_on(self, base: str, recipe: Recipe) -> None:
        files = {f"recipe/{name}": content for name, content in recipe.files.items()}
        machine = build_network.build_files(folder="/mnt/machine")
        files |= {f"machine/{name}": content for name, content in machine.items()}
        script = ". /mnt/machine/environment && cd /mnt/recipe && exec sh -eu install.sh"
        with self._finished_container(base, script, files) as container:
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
            container.commit(repository, tag, conf=config)

    def _make_local_base(self) -> None:
        packages = debian_base.fetch_packages(self._engine.version()["Arch"], self._log)
        self._log(f"Unpacking {len(packages)} packages into a base image.")
        with tempfile.NamedTemporaryFile() as root:
            debian_base.write_root_tar(packages, root.file)
            root.flush()
            raw = self._import(root.name, tag=self._raw_tag)
        files = {f"packages/{name}": content for name, content in packages.items()}
        try:
            with (
                self._finished_container(raw, debian_base.SECOND_STAGE, files) as container,
                tempfile.NamedTemporaryFile() as root,
            ):
                root.writelines(container.export())  # type: ignore[arg-type]  # they are bytes
                root.flush()
                self._import(root.name, tag=build_network.SUITE)
        finally:
            with contextlib.suppress(ImageNotFound):
                self._engine.images.remove(raw)

    def _import(self, root: str, *, tag: str) -> str:
        """Create a one-layer image from a tar file: files unpacked twice are stored once."""
        repository = LOCAL_BASE.partition(":")[0]
        labels = ["LABEL io.berth.role=base-image"]
        self._engine.api.import_image(src=root, repository=repository, tag=tag, changes=labels)
        return f"{repository}:{tag}"

    @contextlib.contextmanager
    def _finished_container(self, image: str, script: str, files: Mapping[str, bytes]) -> Iterator[Container]:
        """Yield a container in which `script` succeeded, with `files` under /mnt during the run."""
        remove_container(self._engine, self._container)
        container = self._engine.containers.create(
            image,
            ["timeout", str(BUILD_LIMIT_S), "/bin/sh", "-eu", "-c", script],
            name=self._container,
            user="0:0",  # numeric: the raw base has no user database yet
            working_dir="/",
            labels={"io.berth.role": "image-build"},
            network_mode=self._network_mode(),
            mounts=[Mount("/mnt", None)],
            tmpfs=TMPFS,
            log_config=LogConfig(type=LogConfig.types.JSON),
        )
        try:
            container.put_archive("/mnt", _tar(files))
            self._run(container)
            yield container
        finally:
            remove_container(self._engine, self._container)

    def _run(self, container: Container) -> None:
        container.start()
        last_lines = self._follow(container.logs(stream=True, follow=True))
        status = container.wait()["StatusCode"]
        if status != 0:
            raise PreflightFailed(
                f"Building the session image failed (exit code {status}): {' | '.join(last_lines[-3:])}",
                f"Read {self._logs / 'session-image.log'}; mostly a package server did not answer. Then run bin/up "
                "again.",
            )

    def _follow(self, output: Iterable[bytes]) -> list[str]:
        """Write all output to the log file, show steps and some lines; return the last lines."""
        self._logs.mkdir(parents=True, exist_ok=True)
        last_lines: list[str] = []
        shown_at = time.monotonic()
        with (self._logs / "session-image.log").open("a", encoding="utf-8") as log_file:
            for line in (line for part in output for line in part.decode(errors="replace").splitlines()):
                log_file.write(line + "\n")
                is_step, line = line.startswith(SHOWN_PREFIX), line.removeprefix(SHOWN_PREFIX).strip()
                if is_step or (SHOWN_DETAIL.match(line) and time.monotonic() - shown_at > SHOWN_EVERY_S):
                    self._log(line if is_step else f"… {line[:100]}")
                    shown_at = time.monotonic()
                if line:
                    last_lines = [*last_lines[-9:], line]
        return last_lines

    def _network_mode(self) -> str:
        """Return the host network if possible: it also reaches a proxy on the loopback address."""
        options = self._engine.info().get("SecurityOptions") or []
        is_remapped = any(name in option for option in options for name in ("name=userns", "name=rootless"))
        return "bridge" if is_remapped else "host"


def _has_image(engine: docker.DockerClient, reference: str) -> bool:
    try:
        engine.images.get(reference)
    except ImageNotFound:
        return False
    return True


def _tar(files: Mapping[str, bytes]) -> bytes:
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return package.getvalue()


def build_for(data: Path) -> None:
    """Build the image on the engine of this data directory, else on that of this machine."""
    address = read_env(find_layout(str(data)).env_file).get("BERTH_ENGINE")
    ensure_session_image(speaker("image"), data, address=address)


if __name__ == "__main__":
    sys.exit(exit_code_for(lambda: build_for(Path(sys.argv[1]))))
