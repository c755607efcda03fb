"""Files of a container whose programs fail, answer nonsense or hang: each has its own error."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agents.runtime.docker import files as docker_files
from agents.runtime.docker.encoding import parse_instant
from agents.runtime.docker.files import DockerFiles
from agents.runtime.port import ContainerGone, RuntimeRefused, RuntimeUnavailable
from agents.runtime.port_async import Channel, Process, ProcessSpec
from agents.runtime.port_files import Entry, EntryType, PathForbidden, PathMissing, PathUnfit, Place

MTIME = "2030-01-01T00:00:00Z"


class ScriptedProcess(Process):
    """Says what it was told to, then ends with `code`, at once unless `needs_input`."""

    def __init__(
        self, output: bytes = b"", errors: bytes = b"", code: int = 0, *, needs_input: bool = False
    ) -> None:
        self._says = [(Channel.ERRORS, errors), (Channel.OUTPUT, output)]
        self._code = code
        self._may_end = asyncio.Event()
        if not needs_input:
            self._may_end.set()
        self.is_silent = self.is_broken = self.is_closed = False
        self.heard = b""

    async def read(self) -> tuple[Channel, bytes]:
        if self.is_silent:
            await asyncio.Event().wait()
        await self._may_end.wait()
        while self._says:
            channel, data = self._says.pop(0)
            if data:
                return channel, data
        return Channel.OUTPUT, b""

    def write(self, data: bytes) -> None:
        self.heard += data

    @property
    def unwritten_bytes(self) -> int:
        return 0

    async def drain(self) -> None:
        await asyncio.sleep(0)
        if self.is_broken:
            self._may_end.set()
            for _ in range(5):
                await asyncio.sleep(0)
            raise RuntimeUnavailable("gone")

    async def end_input(self) -> None:
        self._may_end.set()

    async def resize(self, columns: int, rows: int) -> None: ...

    async def signal(self, name: str) -> None: ...

    async def exit_code(self) -> int | None:
        return self._code

    async def close(self) -> bool:
        self.is_closed = True
        return True

    def leave(self) -> None: ...


class ScriptedHttp:
    """Answers each path as told; an exception is raised."""

    def __init__(self, **told: Any) -> None:
        self._told = told

    async def head(self, url: str, *, path: str) -> Any:
        told = self._told[path.rpartition("/")[2]]
        if isinstance(told, Exception):
            raise told
        return told


def files_of(process: Process, **told: Any) -> DockerFiles:
    async def open_process(name: str, spec: ProcessSpec) -> Process:
        return process

    return DockerFiles(ScriptedHttp(**told), "c", open_process)  # type: ignore[arg-type]


def stat_of(mode: int, **more: Any) -> dict[str, Any]:
    return {"mode": mode, "size": 1, "mtime": MTIME, "linkTarget": "", **more}


def a_place() -> Place:
    modified_at = parse_instant(MTIME)
    assert modified_at is not None
    entry = Entry(name="a", type=EntryType.FILE, size_bytes=1, mode=0o644, modified_at=modified_at)
    return Place("/work/a", entry, is_readable=True)


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        (2, PathMissing, "nothing at /work"),
        (13, PathForbidden, "may not do this at /work"),
        (20, PathUnfit, "of another kind"),
        (127, PathUnfit, r"no programs for this \(127\)"),
    ],
)
async def test_exit_code_of_a_script_says_what_is_wrong(
    code: int, fault: type[Exception], words: str
) -> None:
    process = ScriptedProcess(code=code)
    with pytest.raises(fault, match=words):
        await files_of(process).list_directory("/work", 10)
    assert process.is_closed


async def test_script_that_never_ends_is_given_up_and_closed() -> None:
    process = ScriptedProcess()
    process.is_silent = True
    with pytest.raises(RuntimeUnavailable, match="no answer about /work"):
        await files_of(process).run("", path="/work", limit_s=0.01)
    assert process.is_closed


async def test_output_of_a_script_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_files, "OUTPUT_BYTES", 3)
    assert await files_of(ScriptedProcess(b"abcdef", b"warning")).run("", path="/") == b"abc"


async def test_owner_is_the_user_and_its_primary_group() -> None:
    owner = await files_of(ScriptedProcess(b"1000\n100\n")).owner()
    assert (owner.uid, owner.gid) == (1000, 100)


async def test_nonsense_of_a_stat_is_no_entry() -> None:
    process = ScriptedProcess(b"./a\0/yes\0stat: what?\n")
    with pytest.raises(PathUnfit, match="stat says b'stat: what"):
        await files_of(process).list_directory("/work", 10)


async def test_directory_without_a_stat_is_asked_of_the_engine_name_by_name() -> None:
    process = ScriptedProcess(b"./link\0./gone\0./dir\0./pipe\0./file\0/yes\0")
    files = files_of(
        process,
        link=stat_of(1 << 27 | 0o777, linkTarget="/work/file"),
        gone=RuntimeRefused("Could not find the file"),
        dir=stat_of(1 << 31 | 0o755),
        pipe=stat_of(1 << 25 | 0o600),
        file=stat_of(0o640, mtime=""),
    )
    entries, is_complete = await files.list_directory("/work", 10)
    assert is_complete
    assert [(entry.name, entry.type, entry.mode) for entry in entries] == [
        ("dir", EntryType.DIRECTORY, 0o755),
        ("file", EntryType.FILE, 0o640),
        ("link", EntryType.SYMLINK, 0o777),
        ("pipe", EntryType.OTHER, 0o600),
    ]
    assert [entry.target for entry in entries if entry.target] == ["/work/file"]


async def test_long_directory_without_a_stat_is_not_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_files, "MAX_SINGLE_LOOKUPS", 1)
    files = files_of(ScriptedProcess(b"./a\0./b\0/yes\0"), a=stat_of(0o644), b=stat_of(0o644))
    entries, is_complete = await files.list_directory("/work", 10)
    assert [entry.name for entry in entries] == ["a"]
    assert not is_complete


async def test_container_that_goes_while_names_are_asked_is_gone() -> None:
    files = files_of(ScriptedProcess(b"./a\0/yes\0"), a=ContainerGone("No such container"))
    with pytest.raises(ContainerGone):
        await files.list_directory("/work", 10)


async def test_what_the_engine_does_not_see_is_out_of_reach() -> None:
    files = files_of(ScriptedProcess(b"/run/a\0r\0"), a=RuntimeRefused("Could not find the file"))
    with pytest.raises(PathUnfit, match="lies in memory"):
        await files.find("/run/a", follows_link=True)


async def test_file_is_found_as_the_container_s_stat_says() -> None:
    place = await files_of(ScriptedProcess(b"/work/a\0r\x0081a4 5 1893456000\n")).find(
        "/work/a", follows_link=True
    )
    assert (place.path, place.is_readable, place.entry.name) == ("/work/a", True, "a")
    assert (place.entry.type, place.entry.size_bytes, place.entry.mode) == (EntryType.FILE, 5, 0o644)
    assert place.entry.modified_at == parse_instant(MTIME)


# Content


async def test_reading_that_fails_before_it_says_anything_has_the_program_s_last_words() -> None:
    process = ScriptedProcess(errors=b"cat: warning\ncat: I/O error\n", code=1)
    with pytest.raises(PathUnfit, match="at /work/a: cat: I/O error"):
        await anext(files_of(process).read(a_place()))
    assert process.is_closed


async def test_packing_without_tar_says_what_is_missing() -> None:
    with pytest.raises(PathUnfit, match="needs its `tar`"):
        await anext(files_of(ScriptedProcess(code=127)).pack(a_place()))


async def test_what_could_be_read_is_kept_although_the_program_complains() -> None:
    process = ScriptedProcess(b"content", b"tar: one file is secret\n", code=2)
    assert [data async for data in files_of(process).pack(a_place())] == [b"content"]


async def test_reader_that_leaves_early_closes_the_process() -> None:
    process = ScriptedProcess(b"content")
    reading = files_of(process).read(a_place())
    assert await anext(reading) == b"content"
    await reading.aclose()
    assert process.is_closed


async def test_input_and_its_end_arrive_completely() -> None:
    process = ScriptedProcess(needs_input=True)
    await files_of(process).feed("", chunks=chunks_of(b"one", b"two"), path="/work/a")
    assert process.heard == b"onetwo"
    assert process.is_closed


async def test_program_that_ends_before_its_input_is_fed_no_more_and_says_why() -> None:
    process = ScriptedProcess(errors=b"cat: No space left on device\n", code=1, needs_input=True)
    process.is_broken = True
    with pytest.raises(PathUnfit, match="at /work/a: cat: No space left on device"):
        await files_of(process).feed("", chunks=chunks_of(b"one", b"two"), path="/work/a")
    assert process.heard == b"one"
    assert process.is_closed


async def test_failure_without_words_tells_the_code() -> None:
    with pytest.raises(PathUnfit, match="it ended with 1"):
        await files_of(ScriptedProcess(code=1)).feed("", chunks=chunks_of(), path="/work/a")


async def test_program_that_never_ends_after_its_input_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_files, "SILENCE_S", 0.01)
    process = ScriptedProcess()
    process.is_silent = True
    with pytest.raises(RuntimeUnavailable, match="/work/a takes nothing"):
        await files_of(process).feed("", chunks=chunks_of(b"one"), path="/work/a")
    assert process.is_closed


async def test_discarding_never_raises_a_fault() -> None:
    made = await files_of(ScriptedProcess(b"/work\0")).stage("/work")
    assert isinstance(made, docker_files.DockerStaging)
    await docker_files.DockerStaging(files_of(ScriptedProcess(code=13)), "/work", "x").discard()


async def test_staged_files_are_committed_or_reported() -> None:
    await docker_files.DockerStaging(files_of(ScriptedProcess()), "", "x").commit()
    with pytest.raises(PathUnfit):
        await docker_files.DockerStaging(files_of(ScriptedProcess(code=20)), "/work", "x").commit()


async def test_file_and_archive_go_into_the_staging() -> None:
    written, unpacked = ScriptedProcess(needs_input=True), ScriptedProcess(needs_input=True)
    await docker_files.DockerStaging(files_of(written), "/work", "x").write("a", 0o644, chunks_of(b"file"))
    await docker_files.DockerStaging(files_of(unpacked), "/work", "x").unpack(chunks_of(b"tar"))
    assert (written.heard, unpacked.heard) == (b"file", b"tar")


class BrokenOff(ScriptedProcess):
    """Ends while it is written to, and its connection breaks before its words are read."""

    def __init__(self, code: int | None) -> None:
        super().__init__(needs_input=True)
        self._ended_with = code
        self.is_broken = True

    async def read(self) -> tuple[Channel, bytes]:
        await self._may_end.wait()
        raise RuntimeUnavailable("Engine broke off: [Errno 32] Broken pipe")

    async def exit_code(self) -> int | None:
        return self._ended_with


async def test_a_program_that_failed_is_a_refusal_although_its_connection_broke() -> None:
    with pytest.raises(PathUnfit, match="it ended with 1"):
        await files_of(BrokenOff(1)).feed("", chunks=chunks_of(b"one", b"two"), path="/work/full")


@pytest.mark.parametrize("code", [0, None])
async def test_what_a_broken_connection_carried_whole_is_not_known(code: int | None) -> None:
    """A program that ended well may have had the first part alone."""
    process = BrokenOff(code)
    with pytest.raises(RuntimeUnavailable, match="broke off"):
        await files_of(process).feed("", chunks=chunks_of(b"one", b"two"), path="/work/a")
    assert process.is_closed
