"""Files of a container on a Docker engine, accessed as the container's user with programs that
every image with a shell has.

The engine's archive API is not used for content. It reads and writes as root, does not see tmpfs
mounts, and holds the container's lock until the client has finished, so a slow download would
prevent stopping the session.
"""

import asyncio
import re
import stat
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_hex

from agents.runtime.docker.async_http import EngineHttp
from agents.runtime.docker.encoding import parse_instant
from agents.runtime.port import ContainerGone, RuntimeFault, RuntimeRefused, RuntimeUnavailable
from agents.runtime.port_async import Channel, Process, ProcessSpec
from agents.runtime.port_files import (
    ContainerFiles,
    Entry,
    EntryType,
    Owner,
    PathForbidden,
    PathMissing,
    PathUnfit,
    Place,
    Staging,
)

STAGING_PREFIX = ".berth-upload-"
OUTPUT_BYTES = 4 * 2**20
QUICK_S = 30
COMMIT_S = 600
SILENCE_S = 300
ERROR_TEXT_BYTES = 2**12
NO_SUCH_PROGRAM = 127
MAX_SINGLE_LOOKUPS = 200
MISSING, FORBIDDEN, UNFIT = 2, 13, 20
IS_READABLE = b"r"

# Go's os.FileMode, in which the engine reports file modes.
_GO_DIRECTORY, _GO_SYMLINK, _GO_IRREGULAR = 1 << 31, 1 << 27, 0x8F280000

GO_THERE = """
umask 022
go_to() {
  cd -P -- "$1" 2>/dev/null && return
  [ -d "$1" ] && exit 13
  [ -e "$1" ] && exit 20
  exit 2
}
"""
OWNER = """
while read -r key first rest; do
  case $key in Uid:|Gid:) echo "$first";; esac
done </proc/self/status
"""
FIND = """
directory=${1%/*} name=${1##*/}
go_to "${directory:-/}"
if [ "$2" = follow ] && [ -L "./$name" ] && [ -d "./$name" ]; then go_to "./$name"; name=; fi
[ -e "./$name" ] || [ -L "./$name" ] || exit 2
printf '%s\\0' "${PWD%/}/$name"
[ ! -r "./$name" ] || { [ -d "./$name" ] && [ ! -x "./$name" ]; } || printf r
printf '\\0'
stat -c '%f %s %Y' -- "./$name" 2>/dev/null
"""
LIST = """
go_to "$1"
[ -r . ] || exit 13
limit=$2 count=0 is_complete=yes
set --
for name in * .[!.]* ..?*; do
  [ -e "$name" ] || [ -L "$name" ] || continue
  count=$((count + 1))
  [ "$count" -le "$limit" ] || { is_complete=; break; }
  set -- "$@" "./$name"
done
[ $# = 0 ] || printf '%s\\0' "$@"
printf '/%s\\0' "$is_complete"
[ $# = 0 ] || exec stat -c '%f %s %Y' -- "$@" 2>/dev/null
"""
STAGE = """
there=$1
until [ -e "${there:-/}" ]; do there=${there%/*}; done
[ -d "${there:-/}" ] || exit 20
[ -e "$1" ] || mkdir -p -- "$1" 2>/dev/null || exit 13
go_to "$1"
umask 077
mkdir -- "$2" 2>/dev/null || exit 13
printf '%s\\0' "${PWD%/}"
"""
WRITE = """
umask 077
cat >"$1" || exit 1
chmod "$2" "$1"
"""
UNPACK = """
cd -- "$1" && exec tar -xpf -
"""
COMMIT = """
check() {
  for from in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$from" ] || [ -L "$from" ] || continue
    to=$2/${from##*/}
    if [ ! -d "$from" ] || [ -L "$from" ]; then
      [ ! -d "$to" ] || { printf '%s' "$to"; exit 20; }
    elif [ -d "$to" ]; then
      (check "$from" "$to") || exit $?
    elif [ -e "$to" ] || [ -L "$to" ]; then
      printf '%s' "$to"
      exit 20
    fi
  done
}
merge() {
  for from in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$from" ] || [ -L "$from" ] || continue
    to=$2/${from##*/}
    if [ ! -d "$from" ] || [ -L "$from" ]; then
      [ ! -d "$to" ] || exit 20
      mv -f -- "$from" "$to" || exit 13
    elif [ -d "$to" ]; then
      (merge "$from" "$to") || exit $?
    else
      [ ! -e "$to" ] && [ ! -L "$to" ] || exit 20
      mv -- "$from" "$to" || exit 13
    fi
  done
}
go_to "$1"
check "$1/$2" "${1%/}"
merge "$1/$2" "${1%/}"
"""
DISCARD = """
chmod -R u+rwx -- "$1" 2>/dev/null
rm -rf -- "$1"
"""

OpenProcess = Callable[[str, ProcessSpec], Awaitable[Process]]


class DockerFiles(ContainerFiles):
    """Files of one container."""

    def __init__(self, http: EngineHttp, container: str, open_process: OpenProcess) -> None:
        self._http = http
        self._container = container
        self._open_process = open_process

    async def owner(self) -> Owner:
        uid, gid = (await self.run(OWNER, path="")).split()
        return Owner(int(uid), int(gid))

    async def find(self, path: str, *, follows_link: bool) -> Place:
        found = await self.run(GO_THERE + FIND, path, "follow" if follows_link else "", path=path)
        reached, readable, line = found.split(b"\0")
        path = _text(reached).rstrip("/") or "/"
        entry = _parse_stat_line(path.rpartition("/")[2], line.rstrip(b"\n")) if line else None
        if entry is None or entry.type is EntryType.SYMLINK:
            entry = await self._entry(path)  # only the engine resolves a link to its final target
        place = Place(path, entry, readable == IS_READABLE)
        if follows_link and place.entry.type is EntryType.SYMLINK:
            return await self.find(place.entry.target, follows_link=False)
        return place

    async def list_directory(self, path: str, limit: int) -> tuple[list[Entry], bool]:
        output = await self.run(GO_THERE + LIST, path, str(limit), path=path)
        *names, end, stats = output.split(b"\0")
        is_complete = end == b"/yes"
        shown = [_text(name.removeprefix(b"./")) for name in names]
        lines = stats.split(b"\n")[:-1]
        if len(lines) == len(shown):
            entries = [_parse_stat_line(name, line) for name, line in zip(shown, lines, strict=True)]
        else:
            entries = await self._entries_one_by_one(path, shown[:MAX_SINGLE_LOOKUPS])
            is_complete &= len(shown) <= MAX_SINGLE_LOOKUPS
        return sorted(entries, key=lambda entry: entry.name), is_complete

    def read(self, place: Place) -> AsyncGenerator[bytes, None]:
        return self._program_output("cat", "--", place.path, path=place.path)

    def pack(self, place: Place) -> AsyncGenerator[bytes, None]:
        return self._program_output("tar", "-C", place.path, "-cf", "-", ".", path=place.path)

    async def stage(self, directory: str) -> Staging:
        name = STAGING_PREFIX + token_hex(8)
        made = await self.run(GO_THERE + STAGE, directory, name, path=directory)
        return DockerStaging(self, _text(made.removesuffix(b"\0")), name)

    async def feed(self, script: str, *arguments: str, chunks: AsyncIterable[bytes], path: str) -> None:
        """Run a script with `chunks` as its input.
        Raises PathUnfit with the script's message if it fails.
        """
        spec = ProcessSpec(argv=("sh", "-c", script, "sh", *arguments), has_terminal=False)
        process = await self._open_process(self._container, spec)
        ending = asyncio.get_running_loop().create_task(_end_of(process))
        try:
            async for chunk in chunks:
                process.write(chunk)
                async with asyncio.timeout(SILENCE_S):
                    with suppress(RuntimeUnavailable):  # it ended early: its stderr has the reason
                        await process.drain()
                if ending.done():
                    break
            await process.end_input()
            async with asyncio.timeout(SILENCE_S):
                code, errors = await ending
        except TimeoutError as error:
            raise RuntimeUnavailable(f"{self._container}: {path} takes nothing for {SILENCE_S} s") from error
        finally:
            ending.cancel()
            await process.close()
        if code != 0:
            raise _program_fault(code, errors, path)

    async def run(self, script: str, *arguments: str, path: str, limit_s: float = QUICK_S) -> bytes:
        """Run a script in the container as its user and return its output.
        Raises the fault that its exit code stands for.
        """
        spec = ProcessSpec(argv=("sh", "-c", script, "sh", *arguments), has_terminal=False)
        process = await self._open_process(self._container, spec)
        try:
            async with asyncio.timeout(limit_s):
                output = await _output_of(process)
                code = await process.exit_code()
        except TimeoutError as error:
            raise RuntimeUnavailable(f"{self._container}: no answer about {path} in {limit_s} s") from error
        finally:
            await process.close()
        if code != 0 and not output:
            raise _script_fault(code, path)
        return output

    async def _program_output(self, *argv: str, path: str) -> AsyncGenerator[bytes, None]:
        """Yield the output of a program as it arrives.
        Raises PathUnfit if it failed before any output.
        """
        process = await self._open_process(self._container, ProcessSpec(argv=argv, has_terminal=False))
        errors, has_output = b"", False
        try:
            while (said := await process.read())[1]:
                channel, data = said
                if channel is Channel.OUTPUT:
                    has_output = True
                    yield data
                elif len(errors) < ERROR_TEXT_BYTES:
                    errors += data
            code = 0 if has_output else await process.exit_code()
        finally:
            await process.close()
        if code != 0:
            raise _program_fault(code, errors, path)

    @property
    def _archive(self) -> str:
        return f"/containers/{self._container}/archive"

    async def _entry(self, path: str) -> Entry:
        try:
            output = await self._http.head(self._archive, path=path)
        except ContainerGone:
            raise
        except RuntimeRefused as refusal:
            raise PathUnfit(
                f"The engine does not see {path}: what lies in memory (tmpfs) is out of reach."
            ) from refusal
        return Entry(
            name=path.rpartition("/")[2],
            type=_go_entry_type(output["mode"]),
            size_bytes=output["size"],
            mode=output["mode"] & 0o777,
            modified_at=parse_instant(output["mtime"]) or datetime.fromtimestamp(0, UTC),
            target=output["linkTarget"],
        )

    async def _entries_one_by_one(self, path: str, names: list[str]) -> list[Entry]:
        entries = []
        for name in names:
            try:
                entries.append(await self._entry(f"{path.rstrip('/')}/{name}"))
            except PathUnfit:
                continue  # removed in the meantime
        return entries


class DockerStaging(Staging):
    """Staging directory `name` in `directory`, whose path the container's user resolved."""

    def __init__(self, files: DockerFiles, directory: str, name: str) -> None:
        self._files = files
        self._directory = directory
        self._name = name

    async def write(self, name: str, mode: int, chunks: AsyncIterable[bytes]) -> None:
        path = f"{self._directory}/{self._name}/{name}"
        await self._files.feed(WRITE, path, f"{mode:04o}", chunks=chunks, path=path)

    async def unpack(self, chunks: AsyncIterable[bytes]) -> None:
        path = f"{self._directory}/{self._name}"
        await self._files.feed(UNPACK, path, chunks=chunks, path=path)

    async def commit(self) -> None:
        in_the_way = await self._files.run(
            GO_THERE + COMMIT,
            self._directory or "/",
            self._name,
            path=self._directory or "/",
            limit_s=COMMIT_S,
        )
        if in_the_way:
            raise PathUnfit(f"What is at {_text(in_the_way)} is of another kind.")

    async def discard(self) -> None:
        path = f"{self._directory}/{self._name}"
        try:
            await self._files.run(DISCARD, path, path=path, limit_s=COMMIT_S)
        except RuntimeFault:
            return


async def _output_of(process: Process) -> bytes:
    output = bytearray()
    while (said := await process.read())[1]:
        if said[0] is Channel.OUTPUT:
            output += said[1][: OUTPUT_BYTES - len(output)]
    return bytes(output)


async def _end_of(process: Process) -> tuple[int | None, bytes]:
    """Wait for the end of a process; return its exit code and stderr.

    A process that ends while input is written may break the connection and lose its last output;
    then a failing exit code is returned. Raises RuntimeUnavailable if the connection broke and the
    exit code is 0 or unknown, because the program may have received only a part.
    """
    errors = b""
    try:
        while (said := await process.read())[1]:
            if said[0] is Channel.ERRORS and len(errors) < ERROR_TEXT_BYTES:
                errors += said[1]
    except RuntimeUnavailable:
        if code := await process.exit_code():
            return code, errors
        raise
    return await process.exit_code(), errors


def _program_fault(code: int | None, errors: bytes, path: str) -> RuntimeFault:
    if code == NO_SUCH_PROGRAM:
        return PathUnfit("The session's image has no program for this: a directory needs its `tar`.")
    last = errors.decode(errors="replace").strip().rpartition("\n")[2][:200]
    return PathUnfit(f"The session cannot do this at {path}: {last or f'it ended with {code}'}")


def _script_fault(code: int | None, path: str) -> RuntimeFault:
    if code == MISSING:
        return PathMissing(f"There is nothing at {path}.")
    if code == UNFIT:
        return PathUnfit(f"What is at {path} is of another kind.")
    if code == FORBIDDEN:
        return PathForbidden(f"The session's user may not do this at {path}.")
    return PathUnfit(f"The container has no programs for this ({code}): {path}")


def _parse_stat_line(name: str, line: bytes) -> Entry:
    """Parse a line of `stat -c '%f %s %Y'`. Raises PathUnfit for invalid lines."""
    match = re.fullmatch(rb"([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,11})", line)
    if match is None:
        raise PathUnfit(f"The container's stat says {line[:80]!r}")
    mode, size, modified = int(match[1], 16), int(match[2]), int(match[3])
    return Entry(
        name=name,
        type=_entry_type(mode),
        size_bytes=size,
        mode=mode & 0o777,
        modified_at=datetime.fromtimestamp(max(0, min(modified, 2**32)), UTC),
    )


def _entry_type(mode: int) -> EntryType:
    kinds = {stat.S_IFREG: EntryType.FILE, stat.S_IFDIR: EntryType.DIRECTORY, stat.S_IFLNK: EntryType.SYMLINK}
    return kinds.get(stat.S_IFMT(mode), EntryType.OTHER)


def _go_entry_type(mode: int) -> EntryType:
    if mode & _GO_DIRECTORY:
        return EntryType.DIRECTORY
    if mode & _GO_SYMLINK:
        return EntryType.SYMLINK
    return EntryType.OTHER if mode & _GO_IRREGULAR else EntryType.FILE


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
