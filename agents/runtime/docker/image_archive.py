"""Checks archives of images while they pass, because an engine may load whatever names they have.

The archive comes from a machine that somebody may have taken over. It must not give another image
than the one asked for to the machine that loads it.
"""

import json
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from agents.runtime.port import RuntimeRefused

PIECE_BYTES = 2**20
NAMES_BYTES = 2**20
"""Size of a file with names, at most; those of one image have a few hundred bytes."""

DOCKER_HUB = "docker.io"
NAME, SHORT_NAME = "io.containerd.image.name", "org.opencontainers.image.ref.name"


def checked(pieces: Iterable[bytes], reference: str) -> Iterator[bytes]:
    """Yield the archive unchanged, in pieces, as long as it names no image but `reference`. Nothing of
    a file with names is yielded before it was read. Raises RuntimeRefused.
    """
    source = _Passing(pieces)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|", bufsize=PIECE_BYTES) as archive:
            for member in archive:
                read = _READERS.get(posixpath.basename(member.name))
                if read is None:
                    if (file := archive.extractfile(member) if member.isreg() else None) is not None:
                        while file.read(PIECE_BYTES):
                            yield from source.passed(member.offset_data + file.tell())
                elif not member.isreg() or member.size > NAMES_BYTES:
                    raise RuntimeRefused(f"{member.name} of the archive is not a file with names.")
                elif others := _names(archive.extractfile(member), read) - {_full(reference)}:
                    raise RuntimeRefused(f"The archive of {reference} also names {min(others)[:200]!r}.")
    except (tarfile.TarError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise RuntimeRefused(f"The archive of {reference} cannot be read: {error}") from error
    yield from source.rest()


class _Passing:
    """File over pieces that keeps what was read of it until it is `passed`."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._ahead = bytearray()  # not read yet
        self._kept = bytearray()  # read
        self._passed_bytes = 0

    def read(self, size: int) -> bytes:
        while len(self._ahead) < size and (piece := next(self._pieces, None)) is not None:
            self._ahead += piece
        found = bytes(self._ahead[:size])
        del self._ahead[:size]
        self._kept += found
        return found

    def passed(self, until: int) -> Iterator[bytes]:
        """Yield what is kept of the first `until` bytes of the file."""
        found = bytes(self._kept[: until - self._passed_bytes])
        del self._kept[: len(found)]
        self._passed_bytes += len(found)
        if found:
            yield found

    def rest(self) -> Iterator[bytes]:
        """Yield what is kept, and the padding after the archive's end. Raises RuntimeRefused."""
        yield bytes(self._kept)
        self._kept.clear()
        while found := self.read(PIECE_BYTES):
            if found.strip(b"\0"):
                raise RuntimeRefused("The archive goes on after its end.")
            self._kept.clear()
            yield found


def _names(file: Any, read: Any) -> set[str]:
    return {_full(name) for name in read(json.load(file))}


def _of_manifest(content: Any) -> Iterator[str]:
    for image in content:
        yield from image.get("RepoTags") or ()


def _of_repositories(content: Any) -> Iterator[str]:
    for repository, tags in content.items():
        yield from (f"{repository}:{tag}" for tag in tags)


def _of_index(content: Any) -> Iterator[str]:
    """The short name is a tag alone, or a whole name."""
    for manifest in content["manifests"]:
        annotations = manifest.get("annotations") or {}
        given = (annotations[key] for key in (NAME, SHORT_NAME) if key in annotations)
        yield from (name for name in given if ":" in name or "/" in name)


_READERS = {"manifest.json": _of_manifest, "repositories": _of_repositories, "index.json": _of_index}


def _full(name: str) -> str:
    """Return the name with its registry, as containerd writes it."""
    host, slash, rest = name.partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        return name if host != "index.docker.io" else f"{DOCKER_HUB}/{rest}"
    return f"{DOCKER_HUB}/{name}" if slash else f"{DOCKER_HUB}/library/{name}"
