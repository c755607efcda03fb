"""Reads of which machine reaches which storage host, for superadmins and monitors."""

from collections import defaultdict
from dataclasses import dataclass

from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin, sees_everything
from agents.models import Agent
from common.actors import Actor
from common.errors import NotFound
from sessions_app.models import StorageReach
from vfolders.models import StorageHost


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A storage host, and each real machine in use with its last proof, None if it was not looked at."""

    host: StorageHost
    machines: tuple[tuple[Agent, StorageReach | None], ...]

    @property
    def reached_count(self) -> int:
        return sum(reach is not None and reach.is_reached for _agent, reach in self.machines)


def host_entries(actor: Actor) -> list[HostEntry]:
    """Return all hosts by name. 3 queries. Raises PermissionDenied."""
    if not sees_everything(actor):
        require_superadmin(actor)
    agents = [each for each in Agent.objects.in_use().order_by("name") if not each.is_simulated]
    reaches: dict[int, dict[int, StorageReach]] = defaultdict(dict)
    for row in StorageReach.objects.filter(agent__in=agents):
        reaches[row.host_id][row.agent_id] = row
    return [
        HostEntry(host, tuple([(agent, reaches[host.pk].get(agent.pk)) for agent in agents]))
        for host in StorageHost.objects.order_by("name")
    ]


def host_entry(actor: Actor, host_id: int) -> HostEntry:
    """Return one host. 3 queries. Raises NotFound, PermissionDenied."""
    found = next((each for each in host_entries(actor) if each.host.pk == host_id), None)
    if found is None:
        raise NotFound(_("There is no such storage host."))
    return found
