"""Gives the containers of a session with several what they need to reach each other: the list of hosts,
and a key pair of the session for SSH.

The keys are made from the portal's secret, so a repeated launch gives the same and no row holds them.
"""

import io
import tarfile

from django.conf import settings

from agents.runtime.port import ContainerRuntime
from sessions_app.core.cluster import (
    DIRECTORY,
    ClusterMember,
    KeyPairText,
    cluster_files,
    key_seed,
    make_key_pair,
    processes_of,
)
from sessions_app.core.container_spec import ClusterPlan, KernelPlan, container_name
from sessions_app.models import ComputeSession, Kernel


def cluster_plan(session: ComputeSession, kernel: Kernel) -> ClusterPlan | None:
    """Return the containers of the session, main1 first; None if it has one. No query."""
    if session.kernel_count == 1:
        return None
    members = {each.pk: _member(each) for each in session.kernels.all()}
    return ClusterPlan(tuple(members.values()), members[kernel.pk])


def _member(kernel: Kernel) -> ClusterMember:
    return ClusterMember(kernel.rank, kernel.role, kernel.index, processes_of(kernel.slots))


def deliver(plan: KernelPlan, runtime: ContainerRuntime) -> None:
    """Put the files into a container that has not started. Raises RuntimeFault."""
    assert plan.cluster is not None
    files = cluster_files(plan.cluster.members, _key_pair(plan, "user"), _key_pair(plan, "host"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o400  # OpenSSH refuses keys that others may read
            entry.uid, entry.gid = plan.uid, plan.gid
            archive.addfile(entry, io.BytesIO(content))
    runtime.put_archive(container_name(plan.kernel_id, plan.attempt), DIRECTORY, packed.getvalue())


def _key_pair(plan: KernelPlan, use: str) -> KeyPairText:
    seed = key_seed(settings.SECRET_KEY, plan.session_id, plan.attempt, use)
    return make_key_pair(seed, f"berth-{plan.session_name}")
