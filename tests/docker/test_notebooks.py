"""A real Jupyter server reports its notebook kernels, which save their work when the session ends."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import NetworkSpec
from portal.ops.engine.session_image import ensure_session_image
from sessions_app.core.main_process import STOP_SIGNAL, main_process
from sessions_app.gateway.activity.jupyter import NotebookServer, is_computing
from tests import engines
from tests.waiting import wait_until
from transport.proxy import Target, Transport

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

PORT, TOKEN = 8888, "a-token-of-this-test"
SERVE = ("jupyter", "lab", f"--ServerApp.port={PORT}", f"--IdentityProvider.token={TOKEN}")
START_KERNEL = f"""
from urllib.request import Request, urlopen
urlopen(Request("http://127.0.0.1:{PORT}/api/kernels", data=b"{{}}", headers={{"Authorization": "token {TOKEN}"}}))
"""
# What a page does, and then it is closed: a cell waits for something that computes elsewhere. Its handler is that of the
# user guide, but counts signals: Jupyter's own SIGTERM, after half of its patience, would come while it saves.
RUN_CELL = '''
from glob import glob
from jupyter_client import BlockingKernelClient
[file] = glob("/home/work/.local/share/jupyter/runtime/kernel-*.json")
client = BlockingKernelClient(connection_file=file)
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=60)
client.execute("""
import signal, sys, time

def say(word):
    print(word, flush=True, file=open("/proc/1/fd/1", "w"))

def save(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say("TERM")
    time.sleep(3.5)
    say("saved")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
time.sleep(3600)
""")
'''


@pytest.fixture(scope="module")
def runtime() -> Iterator[DockerRuntime]:
    runtime = DockerRuntime(engines.ADDRESS)
    yield runtime
    runtime.close()
    engines.remove_everything()


@pytest.fixture
def server(runtime: DockerRuntime, tmp_path_factory: pytest.TempPathFactory) -> NotebookServer:
    """One that answers, in a network of its own, without any notebook kernel yet."""
    name = f"notebooks-{uuid4().hex[:8]}"
    image = ensure_session_image(print, tmp_path_factory.mktemp("data"), address=engines.ADDRESS)
    runtime.ensure_network(NetworkSpec(name=name, labels=engines.LABELS, pool="10.215.0.0/20"))
    told = {
        "image": image,
        "network": name,
        "mem_bytes": 2**30,
        "cpu_milli": 2000,
        "stop_signal": STOP_SIGNAL,
    }
    runtime.ensure_container(engines.tiny_spec(name, *main_process("exec sleep infinity"), **told))
    runtime.start_container(name)
    runtime.start_process(name, SERVE)
    state = next(each for each in runtime.list_containers(engines.LABELS) if each.name == name)
    return NotebookServer(uuid4(), Target(state.addresses[name], PORT, name), TOKEN)


def asked(server: NotebookServer) -> bool:
    return asyncio.run(is_computing(Transport(), server))


def test_a_kernel_whose_cell_waits_is_at_work_though_no_page_is_open_and_saves_its_work_at_the_end(
    runtime: DockerRuntime, server: NotebookServer
) -> None:
    name = server.target.owner
    wait_until(
        lambda: runtime.run_process(name, ("python3", "-c", START_KERNEL)).exit_code == 0, deadline_s=90
    )
    assert not asked(server)

    ran = runtime.run_process(name, ("python3", "-c", RUN_CELL), timeout_s=90)
    assert ran.exit_code == 0, ran.output
    wait_until(lambda: asked(server), deadline_s=30)
    assert not asked(replace(server, token="another"))

    runtime.stop_container(name, grace_s=10)
    assert runtime.read_logs(name) == b"TERM\nsaved\n"
    state = runtime.inspect_container(name)
    assert state is not None
    assert state.exit_code != 137
