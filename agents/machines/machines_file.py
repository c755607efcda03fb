"""File with the remote machines, by which `bin/down --purge` finds them: it runs without the database."""

import json
import os

from django.conf import settings

from agents.core.states import AgentState
from agents.machines.probing import LOCAL
from agents.models import Agent
from agents.runtime.addresses import SIMULATED
from agents.runtime.endpoints import write_ssh_files
from agents.runtime.port import SshMaterial, TlsMaterial

FILE = "machines.json"


def write_machines_file() -> None:
    """Write {name: {"address", "directory"}} of the remote machines in use, if it changed; the directory has
    certificates, or the keys of SSH. One query.
    """
    remote = Agent.objects.exclude(state=AgentState.RETIRED.value).exclude(address__startswith=LOCAL)
    rows = remote.exclude(address__startswith=SIMULATED).order_by("name")
    machines = {
        agent.name: {"address": agent.address, "directory": _directory(agent)}
        for agent in rows.only("name", "address", "connection")
    }
    path = settings.DATA_DIR / FILE
    text = json.dumps(machines, indent=2)
    if (path.read_text() if path.exists() else "{}") == text:
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def _directory(agent: Agent) -> str:
    """Return where the files for this machine are; "" if it is reached without."""
    material = agent.credentials
    if isinstance(material, SshMaterial):
        return write_ssh_files(material.host_key, material.key)
    return os.path.dirname(material.ca_file) if isinstance(material, TlsMaterial) else ""
