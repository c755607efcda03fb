"""Admission inputs: everything that is read before a request is accepted or refused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from accounts.core.budget_arithmetic import BudgetState
from accounts.core.limits import Level, LimitState, Scope
from accounts.limits import scope_ids
from accounts.models import Project
from agents.models import Agent, ResourceGroup
from agents.selectors import MachineSize
from common.actors import Actor
from common.errors import BerthError
from images.models import ContainerImage
from sessions_app.core.request import SessionRequest
from sessions_app.ports import HoldState
from sessions_app.queue.dependencies import Dependency
from vfolders.models import VFolder


@dataclass(frozen=True, slots=True)
class ResolvedMount:
    """Folder that the actor may mount, and its path in the containers. `subpath` is the directory of it
    that is mounted, "" for all. `is_automatic`: because of the folder's mode.
    """

    folder: VFolder
    path: str
    is_readonly: bool
    subpath: str = ""
    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionInputs:
    """Objects named by a request for one or more sessions, and the limits and facts that decide it.

    `requests` differ only in name, command and environment; the first stands for all. `unresolved`
    maps a field of the request to the reason why the object named there cannot be used; the
    matching attribute is empty then.
    """

    actor: Actor
    requests: Sequence[SessionRequest]
    project: Project
    image: ContainerImage
    group: ResourceGroup
    scopes: Sequence[Scope]  # policies that limit the sessions, with their current use
    budgets: Sequence[BudgetState]
    folder_limits: Sequence[LimitState]  # exceeded byte limits of the owners of writable folders
    # Requested names that live sessions of the actor already use; empty when the inputs are locked,
    # because a constraint refuses duplicates then.
    used_names: Collection[str]
    has_machine: bool  # an empty machine of the group could run the request
    machine_sizes: Mapping[str, Sequence[MachineSize]]  # by name of usable group; empty if `has_machine`
    image_hold: HoldState | None  # None: a machine has the image, or can pull it
    mounts: Sequence[ResolvedMount] = ()
    dependencies: Sequence[Dependency] = ()
    agent: Agent | None = None
    unresolved: Mapping[str, BerthError] = field(default_factory=dict)

    @property
    def request(self) -> SessionRequest:
        return self.requests[0]

    @property
    def storage_hosts(self) -> list[str]:
        """Names of the storage hosts of its folders, which its machine must reach."""
        return sorted({mount.folder.host.name for mount in self.mounts})

    @property
    def scope_keys(self) -> list[tuple[Level, int]]:
        return scope_ids(self.actor, self.project).keys()
