"""Dead, silent and misidentified engines are reported soon, as errors of the port."""

import asyncio
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import RuntimeUnavailable, TlsMaterial
from agents.runtime.port_async import ProcessSpec
from tests import engines

OPENSSL_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def test_dead_engine_is_unavailable_and_the_address_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="no-engine"):
        DockerRuntime(f"unix://{tmp_path}/no-engine").info()


async def test_dead_engine_is_unavailable_on_the_event_loop_too(tmp_path: Path) -> None:
    runtime = DockerAsyncRuntime(f"unix://{tmp_path}/no-engine")
    with pytest.raises(RuntimeUnavailable, match="no-engine"):
        await runtime.open_process("berth-test-none", ProcessSpec())
    await runtime.close()


async def test_engine_that_never_answers_is_given_up_within_seconds(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(say_nothing, tmp_path / "deaf"):
        began = time.monotonic()
        with pytest.raises(RuntimeUnavailable):
            await asyncio.to_thread(DockerRuntime(f"unix://{tmp_path}/deaf").info)
        assert time.monotonic() - began < 6


# Over the network


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def make_certificates(home: Path) -> Path:
    """Make two authorities; ours has signed the engine at 127.0.0.1 and the portal."""
    for authority in ("ours", "theirs"):
        made = ("req", "-x509", *OPENSSL_KEY, "-days", "1", "-subj", f"/CN={authority}")
        openssl(*made, "-keyout", home / f"{authority}.key", "-out", home / f"{authority}.pem")
    for name, extension in (
        ("engine", "subjectAltName=IP:127.0.0.1"),
        ("portal", "extendedKeyUsage=clientAuth"),
    ):
        (home / "extension").write_text(extension)
        request = ("req", *OPENSSL_KEY, "-subj", f"/CN={name}", "-keyout", home / f"{name}.key")
        openssl(*request, "-out", home / f"{name}.csr")
        signing = ("-CA", home / "ours.pem", "-CAkey", home / "ours.key", "-CAcreateserial", "-days", "1")
        openssl(
            "x509", "-req", "-in", home / f"{name}.csr", *signing,
            "-extfile", home / "extension", "-out", home / f"{name}.pem",
        )  # fmt: skip
    return home


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@asynccontextmanager
async def engine_over_tls(certificates: Path) -> AsyncIterator[str]:
    """The real engine behind mutual TLS on a loopback port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ours.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "engine.pem", certificates / "engine.key")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(engines.ADDRESS.removeprefix("unix://"))
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def material(certificates: Path, authority: str = "ours") -> TlsMaterial:
    names = (f"{authority}.pem", "portal.pem", "portal.key")
    return TlsMaterial(*(str(certificates / name) for name in names))


@pytest.mark.docker
async def test_engine_over_tls_is_known_by_its_own_authority_alone(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates / "theirs.pem"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with engine_over_tls(certificates) as address:
        runtime = DockerRuntime(address, material(certificates))
        assert (await asyncio.to_thread(runtime.info)).engine_id
        runtime.close()


@pytest.mark.docker
async def test_engine_of_another_authority_is_not_talked_to(certificates: Path) -> None:
    async with engine_over_tls(certificates) as address:
        runtime = DockerRuntime(address, material(certificates, authority="theirs"))
        with pytest.raises(RuntimeUnavailable, match=r"(?i)certificate"):
            await asyncio.to_thread(runtime.info)


@pytest.mark.docker
async def test_event_loop_reaches_an_engine_over_tls(certificates: Path) -> None:
    async with engine_over_tls(certificates) as address:
        runtime = DockerAsyncRuntime(address, material(certificates))
        with pytest.raises(Exception, match="No such container"):
            await runtime.open_process("berth-test-none", ProcessSpec())
        await runtime.close()
