"""Promises of every engine for processes and files in a container: Docker and the simulated one."""

import asyncio
import tarfile
from collections.abc import AsyncIterator
from io import BytesIO

import pytest

from agents.runtime.port import ContainerGone
from agents.runtime.port_async import AsyncRuntime, Channel, Process, ProcessSpec
from agents.runtime.port_files import ContainerFiles, EntryType, PathMissing, PathUnfit
from sessions_app.container_io.tar_stream import out_of_session, screen
from tests import engines
from tests.contract.conftest import Rig

PLAIN = ProcessSpec(argv=("cat",), has_terminal=False)


def echo(rig: Rig) -> ProcessSpec:
    """A program that gives back its input, and ends with it."""
    return PLAIN if is_real(rig) else ProcessSpec(argv=("echo",), has_terminal=False)


def is_real(rig: Rig) -> bool:
    return rig.runtime.info().os != "simulated"


async def read_until(process: Process, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen and (data := (await process.read())[1]):
        seen += data
    return seen


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def whole(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def test_a_shell_gives_output_for_input_until_it_exits(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    shell = await async_runtime.open_process(name, ProcessSpec(columns=100, rows=30))
    shell.write(b"echo hello\n")
    assert b"hello" in await read_until(shell, b"hello\r\nhello" if is_real(rig) else b"hello")
    await shell.resize(120, 40)
    await shell.end_input()
    assert await shell.exit_code() is None

    shell.write(b"exit 3\n")
    while (await shell.read())[1]:
        pass
    assert await shell.exit_code() == 3
    assert await shell.close()
    assert await shell.close()
    rig.runtime.remove_container(name)


async def test_a_program_ends_with_its_input(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    process = await async_runtime.open_process(name, echo(rig))
    process.write(b"one\n")
    await process.drain()
    assert process.unwritten_bytes == 0
    assert await process.read() == (Channel.OUTPUT, b"one\n")
    await process.end_input()
    assert (await process.read())[1] == b""
    assert await process.exit_code() == 0
    await process.close()
    rig.runtime.remove_container(name)


async def test_a_program_that_is_not_there_ends_with_127(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    process = await async_runtime.open_process(name, ProcessSpec(argv=("nonsense",), has_terminal=False))
    while (await process.read())[1]:
        pass
    assert await process.exit_code() == 127
    await process.close()
    rig.runtime.remove_container(name)


async def test_a_signal_ends_it_and_no_other_word_is_one(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    process = await async_runtime.open_process(name, echo(rig))
    await process.signal("TERM")
    while (await process.read())[1]:
        pass
    await process.signal("TERM")  # after the end it does nothing
    await process.close()
    if is_real(rig):
        with pytest.raises(ValueError, match="POLL"):
            await process.signal("POLL")
    rig.runtime.remove_container(name)


async def test_what_was_closed_has_ended(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    process = await async_runtime.open_process(name, ProcessSpec())
    assert await process.close()
    process.write(b"echo\n")
    await process.drain()
    await process.end_input()
    assert process.unwritten_bytes == 0
    while (await process.read())[1]:
        pass
    rig.runtime.remove_container(name)


async def test_a_process_needs_a_running_container(rig: Rig, async_runtime: AsyncRuntime) -> None:
    spec = rig.spec()
    with pytest.raises(ContainerGone):
        await async_runtime.open_process(spec.name, ProcessSpec())
    rig.runtime.ensure_container(spec)
    with pytest.raises(ContainerGone):
        await async_runtime.open_process(spec.name, ProcessSpec())
    await async_runtime.end_owned_processes(spec.name, "nobody")
    await async_runtime.end_owned_processes("berth-test-none", "nobody")
    assert spec.name not in await async_runtime.running_containers(engines.LABELS)
    rig.runtime.remove_container(spec.name)


async def test_detached_processes_end_by_their_owner_s_name(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    assert name in await async_runtime.running_containers(engines.LABELS)
    mine, other = [
        await async_runtime.open_process(name, ProcessSpec(owner=owner)) for owner in ("one.1.", "two.1.")
    ]
    await async_runtime.end_owned_processes(name, "one.")
    async with asyncio.timeout(45):
        while (await mine.read())[1]:
            pass
    other.write(b"exit 9\n")
    while (await other.read())[1]:
        pass
    assert await other.exit_code() == 9
    for process in (mine, other):
        await process.close()
    rig.runtime.remove_container(name)


# Files


async def test_a_file_comes_in_by_a_staging_and_is_found_and_read(
    rig: Rig, async_runtime: AsyncRuntime
) -> None:
    name = rig.running()
    files = async_runtime.files(name)
    staging = await files.stage("/tmp/new/place")
    await staging.write("a b", 0o644, pieces(b"one", b"", b"two"))
    with pytest.raises(PathMissing):
        await files.find("/tmp/new/place/a b", follows_link=True)
    await staging.commit()
    await staging.discard()
    await staging.discard()

    place = await files.find("/tmp/new/place/a b", follows_link=True)
    assert (place.entry.type, place.entry.size_bytes, place.is_readable) == (EntryType.FILE, 6, True)
    assert await whole(files.read(place)) == b"onetwo"
    entries, is_complete = await files.list_directory("/tmp/new/place", 10)
    assert ([entry.name for entry in entries], is_complete) == (["a b"], True)
    assert (await files.owner()).uid == 1000
    rig.runtime.remove_container(name)


async def test_a_directory_that_was_packed_can_be_unpacked(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    files = async_runtime.files(name)
    first = await files.stage("/tmp/here/deep")
    await first.write("x", 0o600, pieces(b"x" * 100_000))
    await first.commit()
    await first.discard()
    packed = await whole(screen(files.pack(await files.find("/tmp/here", follows_link=True)), out_of_session))

    second = await files.stage("/tmp/there")
    await second.unpack(pieces(packed[:700], packed[700:]))
    await second.commit()
    await second.discard()
    place = await files.find("/tmp/there/deep/x", follows_link=True)
    assert await whole(files.read(place)) == b"x" * 100_000
    rig.runtime.remove_container(name)


async def test_what_is_cut_leaves_nothing(rig: Rig, async_runtime: AsyncRuntime) -> None:
    class Cut(Exception):
        pass

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 10_000
        raise Cut

    name = rig.running()
    files = async_runtime.files(name)
    staging = await files.stage("/tmp")
    for attempt in (staging.write("x", 0o644, broken()), staging.unpack(broken())):
        with pytest.raises(Cut):
            await attempt
    await staging.discard()
    entries, _ = await files.list_directory("/tmp", 10)
    assert [entry.name for entry in entries if entry.name.startswith((".berth", "x"))] == []
    rig.runtime.remove_container(name)


async def test_any_name_is_listed_found_read_and_packed(rig: Rig, async_runtime: AsyncRuntime) -> None:
    names = ["new\nline", "end\n", "\n", "tab\t", "-rf", "'\"$(x)`\\", "* ?", "x" * 255]
    name = rig.running()
    files = async_runtime.files(name)
    staging = await files.stage("/tmp/odd\n")
    for each in names:
        await staging.write(each, 0o644, pieces(each.encode()))
    await staging.commit()
    await staging.discard()

    entries, is_complete = await files.list_directory("/tmp/odd\n", 50)
    assert ({entry.name for entry in entries}, is_complete) == (set(names), True)
    assert all(entry.is_addressable for entry in entries)
    for each in names:
        place = await files.find(f"/tmp/odd\n/{each}", follows_link=True)
        assert await whole(files.read(place)) == each.encode()
    packed = await whole(
        screen(files.pack(await files.find("/tmp/odd\n", follows_link=True)), out_of_session)
    )
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        assert set(archive.getnames()) == set(names)
    rig.runtime.remove_container(name)


async def test_a_tree_goes_over_another_and_again_and_moves_nothing_where_kinds_differ(
    rig: Rig, async_runtime: AsyncRuntime
) -> None:
    name = rig.running()
    files = async_runtime.files(name)

    async def read(path: str) -> bytes:
        return await whole(files.read(await files.find(f"/tmp/again/tree/{path}", follows_link=True)))

    await send_tree(files, b"1", "a", "sub/b")
    await send_tree(files, b"2", "a", "sub/b", "sub/more")
    assert [await read(path) for path in ("a", "sub/b", "sub/more")] == [b"2", b"2", b"2"]
    for path, in_the_way in (("sub/b/c", "sub/b"), ("sub", "sub")):
        with pytest.raises(PathUnfit, match=f"/tmp/again/tree/{in_the_way} is of another kind"):
            await send_tree(files, b"3", "a", path)
    assert [await read(path) for path in ("a", "sub/b", "sub/more")] == [b"2", b"2", b"2"]
    rig.runtime.remove_container(name)


async def send_tree(files: ContainerFiles, content: bytes, *paths: str) -> None:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            head = tarfile.TarInfo(path)
            head.size = len(content)
            archive.addfile(head, BytesIO(content))
    staging = await files.stage("/tmp/again/tree")
    try:
        await staging.unpack(pieces(buffer.getvalue()))
        await staging.commit()
    finally:
        await staging.discard()


async def test_what_is_of_another_kind_is_unfit(rig: Rig, async_runtime: AsyncRuntime) -> None:
    name = rig.running()
    files = async_runtime.files(name)
    for directory in ("/tmp/kinds/file", "/tmp/kinds/x"):
        staging = await files.stage(directory)
        await staging.write("file", 0o644, pieces(b""))
        await staging.commit()
        await staging.discard()
    staging = await files.stage("/tmp/kinds")
    await staging.write("file", 0o644, pieces(b""))
    with pytest.raises(PathUnfit):
        await staging.commit()
    await staging.discard()
    with pytest.raises(PathUnfit):
        await files.list_directory("/tmp/kinds/x/file", 10)
    with pytest.raises(PathMissing):
        await files.list_directory("/tmp/nothing", 10)
    rig.runtime.remove_container(name)


async def test_files_need_a_running_container(rig: Rig, async_runtime: AsyncRuntime) -> None:
    with pytest.raises(ContainerGone):
        await async_runtime.files("berth-test-none").find("/tmp", follows_link=True)
