"""File with the remote machines, by which `bin/down --purge` finds them: it runs without the database."""

import json
import os

from django.conf import settings

from agents.core.states import AgentState
from agents.machines.probing import LOCAL
from agents.models import Agent
from agents.runtime.addresses import SIMULATED

FILE = "machines.json"


def write_machines_file() -> None:
    """Write {name: {"address", "tls_directory"}} of the remote machines in use, if it changed. One query."""
    remote = Agent.objects.exclude(state=AgentState.RETIRED.value).exclude(address__startswith=LOCAL)
    rows = remote.exclude(address__startswith=SIMULATED).order_by("name")
    machines = {
        name: {"address": address, "tls_directory": tls_directory}
        for name, address, tls_directory in rows.values_list("name", "address", "tls_directory")
    }
    path = settings.DATA_DIR / FILE
    text = json.dumps(machines, indent=2)
    if (path.read_text() if path.exists() else "{}") == text:
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)
