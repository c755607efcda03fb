"""Make a directory of a folder like a local one, or the other way round.

A file is copied if the target lacks it, has another size, or is older than the source; with
`by_content`, if the contents differ, which reads both. Links and special files are left out.
"""

import hashlib
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from berth.errors import BerthError, InvalidInput, NotFound
from berth.files import FolderFiles
from berth.local_files import is_safe_name, make_inside
from berth.transfer import Quiet, Tally, Watcher, fetch_file, pass_over, plan_tree, send_file


@dataclass(frozen=True, slots=True)
class State:
    """Facts that decide whether a file is copied; `modified_s` is in seconds since 1970."""

    is_directory: bool
    size_bytes: int
    modified_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a synchronisation: `kind` is copy, create or delete."""

    kind: str
    path: str
    size_bytes: int = 0


class Sync:
    """One-way synchronisation between `local` and the directory `path` of a folder."""

    def __init__(
        self, files: FolderFiles, path: str, local: Path, *, is_upload: bool, by_content: bool = False
    ) -> None:
        self._files, self._path, self._local = files, path.strip("/"), local
        self._is_upload, self._by_content = is_upload, by_content

    def plan(self, *, deletes: bool = False, watcher: Watcher = Quiet) -> list[Change]:
        """Return the steps, parents first, deletions last and each with all below it.

        Raises InvalidInput if a directory stands where a file goes, or the other way round, and if
        deletions were asked for and the source could not be read whole.
        """
        here, is_here_whole = self._local_states(watcher)
        there, is_there_whole = self._remote_states(watcher)
        source, target = (here, there) if self._is_upload else (there, here)
        if deletes and not (is_here_whole if self._is_upload else is_there_whole):
            raise InvalidInput(
                "Not all of the source can be read, so nothing is deleted.", hint="Leave --delete out."
            )
        steps = []
        for name, state in sorted(source.items()):
            old = target.get(name)
            if old is not None and old.is_directory != state.is_directory:
                raise InvalidInput(f"“{name}” is a directory on one side and a file on the other.")
            if state.is_directory:
                steps += [Change("create", name)] if old is None else []
            elif old is None or self._differs(name, state, old):
                steps.append(Change("copy", name, state.size_bytes))
        if deletes:
            gone = sorted(name for name in target if name not in source)
            steps += [Change("delete", name) for name in gone if not _has_parent(name, gone)]
        return steps

    def apply(self, steps: list[Change], watcher: Watcher) -> Tally:
        """Do the steps; an entry that cannot be copied is reported and passed over."""
        tally = Tally()
        for step in steps:
            try:
                tally += self._apply(step, watcher)
            except (BerthError, OSError) as error:
                pass_over(error, step.path, watcher)
                tally += Tally(failed=1)
        return tally

    def _apply(self, step: Change, watcher: Watcher) -> Tally:
        local, there = self._local / step.path, self._there(step.path)
        parts = tuple(step.path.split("/"))
        if step.kind == "delete":
            if self._is_upload:
                self._files.trash(there)
            elif local.is_dir() and not local.is_symlink():
                shutil.rmtree(local)
            else:
                local.unlink(missing_ok=True)
            return Tally()
        if step.kind == "create":
            if self._is_upload:
                self._files.make_directory(there)
            else:
                make_inside(self._local, parts)
            return Tally()
        if self._is_upload:
            return send_file(self._files, local, there, watcher)
        make_inside(self._local, parts[:-1])
        return fetch_file(self._files.read(there), local, step.size_bytes, watcher)

    def _differs(self, name: str, source: State, target: State) -> bool:
        if source.size_bytes != target.size_bytes:
            return True
        if not self._by_content:
            return source.modified_s > target.modified_s
        content = hashlib.sha256()
        for piece in self._files.read(self._there(name)):
            content.update(piece)
        with (self._local / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest() != content.digest()

    def _there(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")

    def _local_states(self, watcher: Watcher) -> tuple[dict[str, State], bool]:
        if not self._local.is_dir():
            if self._is_upload:
                raise InvalidInput(f"{self._local} is not a directory.")
            self._local.mkdir(parents=True)
        plan = plan_tree(self._local, watcher)
        states = {}
        for name, path in plan.members:
            status = path.lstat()
            states[name] = State(path.is_dir(), status.st_size, status.st_mtime)
        return states, not plan.tally.failed

    def _remote_states(self, watcher: Watcher) -> tuple[dict[str, State], bool]:
        states: dict[str, State] = {}
        is_whole = True
        waiting = [""]
        while waiting:
            directory = waiting.pop()
            try:
                listing = self._files.list(self._there(directory))
            except NotFound:
                if directory or not self._is_upload:
                    raise
                break
            is_whole = is_whole and listing.is_complete
            for entry in listing.entries:
                name = f"{directory}/{entry.name}".lstrip("/")
                if not entry.is_addressable or not is_safe_name(entry.name):
                    watcher.skip(name, "its name cannot be used here")
                    is_whole = False
                elif entry.kind in ("file", "directory"):
                    modified = entry.modified_at or datetime.fromtimestamp(0, UTC)
                    states[name] = State(entry.is_directory, entry.size_bytes, modified.timestamp())
                    waiting += [name] if entry.is_directory else []
        return states, is_whole


def _has_parent(name: str, names: list[str]) -> bool:
    return any(name.startswith(f"{each}/") for each in names)
