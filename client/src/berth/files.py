"""Read and write files of folders and of running sessions through one interface.

Paths in a folder are relative to the folder. Paths in a session are absolute, or relative to its
home directory.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import httpx

from berth import archives, transfer
from berth.addresses import quoted_path, relative_path, segment
from berth.decoding import decode, get_field
from berth.errors import InvalidInput, NotFound, Refused, UnexpectedAnswer, Unreachable
from berth.models import Directory, Entry, FileOperation, Hit
from berth.resumable import RESUMABLE_BYTES, write_resumable
from berth.transfer import FileStore, Quiet, Tally, Watcher
from berth.transport import Content, Transport, parse_json

HOME = "/home/work"
TRIES = 5
BYTES = {"Content-Type": "application/octet-stream"}


class Files(FileStore):
    """File operations of folders and sessions. All methods raise NotFound and Refused."""

    @abstractmethod
    def list(self, path: str = "") -> Directory:
        """Return the entries of a directory."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file; creates missing parent directories."""
        self.write_stream(path, lambda: (content,), len(content))

    def upload(self, local: str | Path, path: str = "", watcher: Watcher = Quiet) -> Tally:
        """Copy a local file or directory to `path`, by the rules of `berth.transfer`.

        Raises InvalidInput, Refused.
        """
        return transfer.upload(self, local, path, watcher)

    def download(self, path: str, local: str | Path = ".", watcher: Watcher = Quiet) -> Tally:
        """Copy a file or directory to this computer, by the rules of `berth.transfer`.

        Raises NotFound, InvalidInput, Refused.
        """
        return transfer.download(self, path, local, watcher)


class FolderFiles(Files):
    """Files of a folder, as `folder.files`."""

    def __init__(self, transport: Transport, folder_id: str) -> None:
        self._transport = transport
        self._base = f"folders/{segment(folder_id)}"

    def stat(self, path: str) -> Entry:
        if not relative_path(path):
            return Entry(name="", kind="directory")
        try:
            head = self._transport.request("HEAD", self._address(path))
        except NotFound as exc:
            raise NotFound(f"There is nothing at “{path}” in this folder.") from exc
        name = PurePosixPath(path).name
        if head.headers.get("Content-Type", "").startswith("application/json"):
            return Entry(name=name, kind="directory")
        return Entry(name=name, kind="file", size_bytes=_content_length(head))

    def list(self, path: str = "") -> Directory:
        answer = self._transport.request("GET", self._address(path))
        if not answer.headers.get("Content-Type", "").startswith("application/json"):
            raise InvalidInput(f"“{path}” is a file.", hint="Only directories can be listed.")
        return decode(Directory, parse_json(answer))

    def read(self, path: str) -> Iterator[bytes]:
        """Yield the contents of a file; resumes at the same byte after a lost connection.

        Raises UnexpectedAnswer if the file changed meanwhile.
        """
        position, etag = 0, ""
        for attempt in range(1, TRIES + 1):
            headers = {"Range": f"bytes={position}-", "If-Range": etag} if position else {}
            try:
                with self._transport.stream("GET", self._address(path), headers=headers) as answer:
                    if position and answer.status_code != httpx.codes.PARTIAL_CONTENT:
                        raise UnexpectedAnswer(f"“{path}” changed while it was read.", hint="Read it again.")
                    etag = answer.headers.get("ETag", "")
                    for piece in answer.iter_bytes():
                        position += len(piece)
                        yield piece
                return
            except Unreachable:
                if attempt == TRIES or not etag:
                    raise

    def write_stream(
        self, path: str, content: Content, size_bytes: int, mode: int = 0, stamp: str = ""
    ) -> None:
        """Write `size_bytes` bytes from `content()`, which is called anew for each try.

        A large file with a `stamp`, which tells versions of the source apart, goes on where an earlier
        try or run stopped. `mode` is ignored: folders keep no file modes.
        """
        if stamp and size_bytes >= RESUMABLE_BYTES:
            write_resumable(self._transport, self._base, path, content, size_bytes, stamp)
            return
        headers = {**BYTES, "Content-Length": str(size_bytes)}
        self._transport.request("PUT", self._address(path), content=content, headers=headers)

    def make_directory(self, path: str) -> None:
        """Create a directory and its missing parents; an existing directory is accepted.

        Raises Refused if something else has that name.
        """
        try:
            self._transport.request("POST", f"{self._base}/directories/", json={"path": relative_path(path)})
        except Refused as exc:
            if exc.code != "exists" or not self.stat(path).is_directory:
                raise

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all its contents."""
        if not relative_path(path):
            raise InvalidInput("Say what to delete.", hint="The folder itself: berth folder delete.")
        self._transport.request("DELETE", self._address(path))

    def trash(self, *paths: str) -> str:
        """Move entries to the trash of the folder; return the batch that `restore` takes."""
        wanted = [relative_path(path) for path in paths]
        if not all(wanted):
            raise InvalidInput("Say what to delete.", hint="The folder itself: berth folder delete.")
        answer = self._transport.request("POST", f"{self._base}/trash/", json={"paths": wanted})
        return str(get_field(parse_json(answer), "batch", str))

    def restore(self, batch: str) -> None:
        """Bring entries back from the trash to where they were."""
        self._transport.request("POST", f"{self._base}/trash/{segment(batch)}/restore/")

    def start(
        self, kind: str, *paths: str, to: str = "", name: str = "", taken: str = "refuse"
    ) -> FileOperation:
        """Begin to copy, move or unpack entries within the folder, into the directory `to`.

        `taken` says what happens if a name is taken: refuse, keep_both, replace or skip.
        """
        body = {
            "kind": kind,
            "paths": [relative_path(path) for path in paths],
            "to": relative_path(to),
            "name": name,
            "taken": taken,
        }
        answer = self._transport.request("POST", f"{self._base}/operations/", json=body)
        return decode(FileOperation, parse_json(answer))

    def operation(self, operation_id: str) -> FileOperation:
        """Return an operation with its progress. Raises NotFound a day after its end."""
        return decode(FileOperation, self._transport.get_json(f"file-operations/{segment(operation_id)}/"))

    def search(self, words: str, path: str = "") -> Iterator[Hit]:
        """Yield the entries below a directory whose names contain the words, as they are found; with *
        or ? the words are a pattern. Raises Refused if the search breaks off, and at its limits.
        """
        asked = {"q": words, "path": relative_path(path)}
        with self._transport.stream("GET", f"{self._base}/search/", params=asked) as answer:
            for line in answer.iter_lines():
                found = json.loads(line) if line else {}
                if "path" in found:
                    yield decode(Hit, found)
                elif "error" in found:
                    raise Refused(str(found["error"]))
                elif found.get("is_complete") is False:
                    raise Refused("Not everything was searched.", hint="Search in a directory, or for more.")

    def send_tree(self, local: Path, path: str, watcher: Watcher) -> Tally:
        return transfer.send_one_by_one(self, local, path, watcher)

    def fetch_tree(self, path: str, local: Path, watcher: Watcher) -> Tally:
        return transfer.fetch_one_by_one(self, path, local, watcher)

    def _address(self, path: str) -> str:
        return f"{self._base}/files/{quoted_path(path)}"


class SessionFiles(Files):
    """Files of a running session, as `session.files`."""

    def __init__(self, transport: Transport, session_id: str, kernel: str = "main1") -> None:
        self._transport = transport
        self._base = f"sessions/{segment(session_id)}/files/"
        self._kernel = kernel

    def stat(self, path: str) -> Entry:
        """Return the entry at `path`. Follows symbolic links, but keeps the link's name."""
        entry = self._ask_for(path)
        target = str(entry.raw.get("target") or "")
        if entry.kind != "link" or not target.startswith("/"):
            return entry
        return replace(self._ask_for(target), name=entry.name)

    def list(self, path: str = "") -> Directory:
        told = self._transport.get_json(self._base, **self._at(path))
        entries = tuple(_entry(row) for row in get_field(told, "entries", list))
        return Directory(
            path=str(told.get("path", path)),
            entries=entries,
            is_complete=bool(told.get("is_complete", True)),
            raw=told,
        )

    def read(self, path: str) -> Iterator[bytes]:
        with self._transport.stream("GET", f"{self._base}content/", params=self._at(path)) as answer:
            yield from answer.iter_bytes()

    def write_stream(
        self, path: str, content: Content, size_bytes: int, mode: int = 0, stamp: str = ""
    ) -> None:
        """Write `size_bytes` bytes from `content()`, which is called anew for each try.

        With mode 0 the portal chooses the file mode.
        """
        headers = {**BYTES, "Content-Length": str(size_bytes)}
        params = {**self._at(path), "mode": f"{mode:04o}" if mode else None}
        self._transport.request(
            "PUT", f"{self._base}content/", params=params, content=content, headers=headers
        )

    def send_tree(self, local: Path, path: str, watcher: Watcher) -> Tally:
        """Upload a directory as one archive, completely or not at all."""
        plan = transfer.plan_tree(local, watcher)
        watcher.begin(local.name, plan.tally.size_bytes)
        headers = {"Content-Type": "application/x-tar"}
        self._transport.request(
            "PUT",
            f"{self._base}archive/",
            params=self._at(path),
            content=lambda: archives.write_archive(plan, watcher),
            headers=headers,
        )
        return plan.tally

    def fetch_tree(self, path: str, local: Path, watcher: Watcher) -> Tally:
        with self._transport.stream("GET", f"{self._base}archive/", params=self._at(path)) as answer:
            return archives.read_archive(answer.iter_bytes(), local, watcher)

    def _ask_for(self, path: str) -> Entry:
        return _entry(self._transport.get_json(f"{self._base}stat/", **self._at(path)))

    def _at(self, path: str) -> dict[str, str]:
        return {"path": in_session(path), "kernel": self._kernel}


def _content_length(head: httpx.Response) -> int:
    told = head.headers.get("Content-Length", "0")
    if not told.isdecimal():
        raise UnexpectedAnswer("The portal sent a length that is no number.")
    return int(told)


def in_session(path: str) -> str:
    """Return the absolute path of `path` in a session."""
    return str(PurePosixPath(HOME) / path)


def _entry(row: Any) -> Entry:
    """Decode an entry. Sessions send `type` and know symbolic links; folders send `kind`."""
    if not isinstance(row, Mapping):
        raise UnexpectedAnswer("The portal sent something else than a file.")
    kind = str(row.get("kind") or row.get("type") or "other")
    name = row.get("name") or PurePosixPath(str(row.get("path", ""))).name
    return decode(Entry, {**row, "name": name}, kind="link" if kind == "symlink" else kind)
