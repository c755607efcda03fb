"""List the fair-share entries of a resource group: target, current and past share of each domain,
project and user, next to be served first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import F, Sum

from accounts.core.limits import Level
from accounts.models import Domain, Project, User
from agents.core.states import AgentState
from agents.models import AgentSlot, ResourceGroup
from common import clock
from scheduler.engine.policy.fair_share import PAST_WEIGHT
from scheduler.fairness.usage import (
    SHARE_LEVELS,
    Holder,
    Usage,
    dominant_share,
    read_usage,
    read_weights,
    sum_by_holder,
)
from sessions_app.models import ComputeSession

Path = tuple[int, ...]  # ids of domain, project and user, or a prefix of these
LEAST_SHARE = 1e-6  # smaller past shares are not listed


@dataclass(frozen=True, slots=True)
class FairShareEntry:
    """Fair-share entry of one domain, project or user; shares are fractions of the group's
    capacity.
    """

    level: Level
    id: int
    name: str
    above: tuple[str, ...]  # names of its domain and project
    weight: float
    target: float | None  # share by weight if all present here wanted theirs; None: not present
    held: float
    lately: float

    @property
    def counts(self) -> float:
        """Usage divided by weight; among siblings the smallest is served first."""
        return _weighted_use(self.held, self.lately, self.weight)

    @property
    def holder_name(self) -> str:
        """Name for forms and commands: a project with its domain."""
        return f"{self.above[0]}/{self.name}" if self.level is Level.PROJECT else self.name


def read_fair_share_entries(group: ResourceGroup, level: Level) -> list[FairShareEntry]:
    """Return the entries at `level` that have allocations, past use, pending sessions or a weight,
    in the order in which fair share serves them. A user appears once per project. 6 to 8 queries,
    any number of rows.
    """
    return _GroupShares(group).entries(level)


class _GroupShares:
    """Fair-share data of one group at one instant."""

    def __init__(self, group: ResourceGroup) -> None:
        self._total = _total_of(group)
        uses = read_usage(group, clock.now())
        self._weights = read_weights(group.pk)
        self._whole = sum_by_holder(uses)
        present = {path for path, use in uses.items() if self._has_share(use)} | _waiting_in(group)
        self._domains, self._projects, self._people = _rows(present, self._weights)
        # Past use of deleted users still counts for their project.
        here = {path if path[-1] in self._people else path[:-1] for path in present}
        self._paths = self._all_paths(here)

    def entries(self, level: Level) -> list[FairShareEntry]:
        length = SHARE_LEVELS.index(level) + 1
        targets = _targets(self._paths, self._weights)
        found = [(path, self._entry(level, path, targets[path])) for path in targets if len(path) == length]
        found.sort(key=lambda each: [*map(self._rank, _prefixes(each[0])), each[0]])
        listed = {path[-1] for path, _ in found}
        absent = [key for each, key in self._weights if each is level and key not in listed]
        return [each for _, each in found] + [self._entry(level, (key,), None) for key in sorted(absent)]

    def _entry(self, level: Level, path: Path, target: float | None) -> FairShareEntry:
        names: Mapping[int, str] = {
            Level.DOMAIN: self._domains,
            Level.PROJECT: {key: project.name for key, project in self._projects.items()},
            Level.USER: self._people,
        }[level]
        holder = level, path[-1]
        use, above = self._whole.get(holder, Usage()), path[:-1]
        return FairShareEntry(
            level=level,
            id=path[-1],
            name=names.get(path[-1], ""),
            above=(
                *(self._domains.get(key, "") for key in above[:1]),
                *(self._projects[key].name for key in above[1:]),
            ),
            weight=self._weights.get(holder, 1.0),
            target=target,
            held=dominant_share(use.held, self._total),
            lately=dominant_share(use.lately, self._total),
        )

    def _rank(self, path: Path) -> float:
        """Return `counts` of the last element of the path, for sorting among its siblings."""
        holder = SHARE_LEVELS[len(path) - 1], path[-1]
        use = self._whole.get(holder, Usage())
        shares = dominant_share(use.held, self._total), dominant_share(use.lately, self._total)
        return _weighted_use(*shares, self._weights.get(holder, 1.0))

    def _all_paths(self, present: Iterable[Path]) -> set[Path]:
        """Return the paths with all their ancestors, and those of domains and projects that only
        have a weight.
        """
        weighted: set[Path] = {(key,) for level, key in self._weights if level is Level.DOMAIN}
        weighted |= {
            (self._projects[key].domain_id, key)
            for level, key in self._weights
            if level is Level.PROJECT and key in self._projects
        }
        return {way for path in {*present, *weighted} for way in _prefixes(path)}

    def _has_share(self, use: Usage) -> bool:
        shares = dominant_share(use.held, self._total), dominant_share(use.lately, self._total)
        return bool(use.held) or max(shares) > LEAST_SHARE


def _weighted_use(held: float, lately: float, weight: float) -> float:
    """Return weighted usage by the engine's formula."""
    return (held + PAST_WEIGHT * lately) / weight


def _prefixes(path: Path) -> list[Path]:
    """Return all prefixes from the domain down: (1, 2, 3) → (1,), (1, 2), (1, 2, 3)."""
    return [path[:length] for length in range(1, len(path) + 1)]


def _targets(paths: Iterable[Path], weights: Mapping[Holder, float]) -> dict[Path, float]:
    """Return the fraction of the group that each path gets if all is divided by weight, level by
    level.
    """
    ordered = sorted(paths, key=len)
    weight_of = {path: weights.get((SHARE_LEVELS[len(path) - 1], path[-1]), 1.0) for path in ordered}
    sums: dict[Path, float] = {}
    for path in ordered:
        sums[path[:-1]] = sums.get(path[:-1], 0.0) + weight_of[path]
    targets: dict[Path, float] = {(): 1.0}
    for path in ordered:
        targets[path] = targets[path[:-1]] * weight_of[path] / sums[path[:-1]]
    return targets


def _total_of(group: ResourceGroup) -> dict[str, int]:
    slots = AgentSlot.objects.filter(agent__resource_group=group).exclude(
        agent__state=AgentState.RETIRED.value
    )
    return dict(slots.order_by().values_list("slot_name").annotate(in_all=Sum(F("capacity") + F("surplus"))))


def _waiting_in(group: ResourceGroup) -> set[Path]:
    waiting = ComputeSession.objects.waiting().filter(resource_group=group)
    return set(waiting.order_by().values_list("domain_id", "project_id", "owner_id").distinct())


def _rows(
    present: Iterable[Path], weights: Iterable[Holder]
) -> tuple[dict[int, str], dict[int, Project], dict[int, str]]:
    """Return names of domains, projects, and e-mail addresses of users, by id, for all paths and
    weights.
    """
    domains, projects, people = (
        {*(path[index] for path in present), *(key for each, key in weights if each is level)}
        for index, level in enumerate(SHARE_LEVELS)
    )
    found = Project.objects.in_bulk(projects)
    domains |= {project.domain_id for project in found.values()}
    return (
        dict(Domain.objects.filter(pk__in=domains).values_list("pk", "name")),
        found,
        dict(User.objects.filter(pk__in=people).values_list("pk", "email")),
    )
