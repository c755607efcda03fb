"""Reads of which machine reaches which storage host, for superadmins and monitors."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count, Prefetch, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin, sees_everything
from agents.models import Agent
from common.actors import Actor
from common.errors import NotFound
from sessions_app.models import StorageReach
from vfolders.models import StorageGrant, StorageHost
from vfolders.storage.kinds import HostKind
from vfolders.storage.registry import KINDS


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A storage host, and each real machine in use with its last proof, None if it was not looked at."""

    host: StorageHost
    kind: HostKind | None
    machines: tuple[tuple[Agent, StorageReach | None], ...]

    @property
    def used_bytes(self) -> int:
        return max(self.host.total_bytes - self.host.free_bytes, 0)

    @property
    def reached_count(self) -> int:
        return sum(reach is not None and reach.is_reached for _agent, reach in self.machines)


def host_entries(actor: Actor) -> list[HostEntry]:
    """Return all hosts by name, with their folders counted and their grants. 4 queries. Raises
    PermissionDenied.
    """
    if not sees_everything(actor):
        require_superadmin(actor)
    agents = [each for each in Agent.objects.in_use().order_by("name") if not each.is_simulated]
    hosts = StorageHost.objects.order_by("name").annotate(
        folder_count=Count("folders"), folder_bytes=Coalesce(Sum("folders__size_bytes"), 0)
    )
    grants = StorageGrant.objects.select_related("domain", "project__domain", "policy")
    reaches: dict[int, dict[int, StorageReach]] = defaultdict(dict)
    for row in StorageReach.objects.filter(agent__in=agents):
        reaches[row.host_id][row.agent_id] = row
    return [
        HostEntry(
            host, KINDS.get(host.kind), tuple([(agent, reaches[host.pk].get(agent.pk)) for agent in agents])
        )
        for host in hosts.prefetch_related(Prefetch("grants", grants))
    ]


def host_entry(actor: Actor, host_id: int) -> HostEntry:
    """Return one host. 4 queries. Raises NotFound, PermissionDenied."""
    found = next((each for each in host_entries(actor) if each.host.pk == host_id), None)
    if found is None:
        raise NotFound(_("There is no such storage host."))
    return found
