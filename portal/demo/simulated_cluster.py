"""Simulated cluster: agents without containers, simulated users, and the sessions that they submit.
All objects have reserved names and addresses, by which they can be found and removed even after a
crash.

Sessions pass through all real components: services, database, Celery, engines in Redis. Only the
programs in the containers are missing.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from accounts.core.limits import Level
from accounts.limits import default_policy
from accounts.models import Domain, LimitUse, Membership, Project, User
from agents.machines.simulation import MachineShape, add_simulated_agents, remove_simulated_agents
from agents.models import Agent, ResourceGroup
from agents.resource_groups.service import create_resource_group
from agents.runtime.addresses import SHARED, SIMULATED
from agents.runtime.simulated.state import clear_shared_states, remove_shared_states
from common.actors import SYSTEM, Actor, ActorKind, Via
from common.audit import audit_log
from common.errors import BerthError
from common.models import AuditEntry
from images.models import ContainerImage
from sessions_app.admission.service import enqueue_batch, enqueue_session
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.models import (
    ComputeSession,
    ComputeSessionQuerySet,
    KernelAllocation,
    SessionArray,
    SessionDependency,
)
from sessions_app.termination.service import terminate_session

GROUP = "simulated"
TITLE = "Simulated by bin/cluster"
"""Marks domains and resource groups as simulated: real ones may have the same name."""
STEM = "simulated"
"""Prefix of the names of domains and projects."""
OURS = "@simulated.berth.example"
IMAGE = "berth.example/simulated:1"
DOMAINS, PROJECTS, PEOPLE = 8, 50, 400
SESSIONS_AT_ONCE = 500
MOST_ALIKE = 100
GPUS = (1, 2, 4, 8)
PARTS = (0.1, 0.25, 0.5)


class Unsafe(Exception):
    """Real users might get simulated agents."""


@dataclass(frozen=True, slots=True)
class People:
    """Submitting users, each with the name of the project."""

    members: Sequence[tuple[Actor, str]]
    image: str
    group: str


def make_cluster(*, count: int, shape: MachineShape, group_name: str = GROUP) -> ResourceGroup:
    """Add `count` agents to a resource group of their own. Raises Unsafe for a group that was not
    made here, and if no group is the default: requests without a group would use the simulated one.
    """
    if not ResourceGroup.objects.filter(is_default=True).exists():
        raise Unsafe(
            "No resource group is the default one, so people who name none would get the simulated one. Start the portal with"
            " bin/up first, or mark a resource group as the default."
        )
    group = ResourceGroup.objects.present().filter(name=group_name).first()
    if group is None:
        group = create_resource_group(actor=SYSTEM, name=group_name, description=TITLE)
    elif not is_ours(group):
        raise Unsafe(f"“{group_name}” is a group for real machines. Choose another --group.")
    add_simulated_agents(actor=SYSTEM, group=group, count=count, shape=shape)
    return group


def is_ours(group: ResourceGroup) -> bool:
    """Return True if the group was made here, has only simulated agents, and is not the default."""
    is_known = group.description == TITLE or group.agents.filter(address__startswith=SIMULATED).exists()
    others = group.agents.exclude(address__startswith=SIMULATED)
    return is_known and not group.is_default and not others.exists()


@transaction.atomic
def make_people() -> None:
    """Create domains, projects and users of the workload; nobody can sign in as them."""
    if User.objects.filter(email__endswith=OURS).exists():
        return
    nobody_knows, policy = make_password(None), default_policy()
    domains, projects = _scopes()
    Domain.objects.bulk_create(  # some may be left from before, in use by others
        (Domain(name=f"{STEM}-{number}", title=TITLE) for number in range(DOMAINS)), ignore_conflicts=True
    )
    tenants = list(domains.order_by("name"))
    Project.objects.bulk_create(
        (
            Project(domain=tenants[number % len(tenants)], name=f"{STEM}-{number}")
            for number in range(PROJECTS)
        ),
        ignore_conflicts=True,
    )
    teams = list(projects.select_related("domain").order_by("pk"))
    people: list[User] = User.objects.bulk_create(
        User(
            email=f"person-{number}{OURS}",
            password=nobody_knows,
            domain=teams[number % len(teams)].domain,
            policy=policy,
        )
        for number in range(PEOPLE)
    )
    Membership.objects.bulk_create(
        Membership(user=person, project=teams[number % len(teams)]) for number, person in enumerate(people)
    )
    ContainerImage.objects.get_or_create(
        reference=IMAGE, defaults={"title": "Simulated", "architecture": "x86_64"}
    )
    audit_log.record(actor=SYSTEM, action="portal.make_simulated_people", changes={"people": PEOPLE})


def _scopes() -> tuple[QuerySet[Domain], QuerySet[Project]]:
    """Return the domains and projects that were made here."""
    domains = Domain.objects.filter(title=TITLE)
    return domains, Project.objects.filter(domain__in=domains, name__startswith=f"{STEM}-")


def simulated_people(group: ResourceGroup) -> People:
    make_people()
    members = Membership.objects.filter(user__email__endswith=OURS).select_related("user", "project")
    return People(
        members=[(actor_of(member.user), member.project.name) for member in members.order_by("user_id")],
        image=IMAGE,
        group=group.name,
    )


def actor_of(user: User) -> Actor:
    return Actor(
        kind=ActorKind.USER, user_id=user.pk, label=user.email, domain_id=user.domain_id, via=Via.COMMAND
    )


def workload(
    people: People, *, seed: int, has_gpus: bool = True, is_fractional: bool = False
) -> Iterator[tuple[Actor, SessionRequest]]:
    """Yield requests without end: three in ten without GPU, the others with 1, 2, 4 or 8.
    `is_fractional` replaces one GPU by a fraction of one.
    """
    chance = random.Random(seed)  # noqa: S311 -- the same work each time
    run = uuid4().hex[:8]
    for number in count(1):
        actor, project = chance.choice(people.members)
        yield (
            actor,
            parse_request(
                {
                    "name": f"simulated-{run}-{number}",
                    "project": project,
                    "image": people.image,
                    "resource_group": people.group,
                    "type": "batch",
                    "command": "simulated",
                    "resources": resources(chance, has_gpus=has_gpus, is_fractional=is_fractional),
                }
            ),
        )


def resources(chance: random.Random, *, has_gpus: bool, is_fractional: bool) -> dict[str, object]:
    if not has_gpus or chance.random() < 0.3:
        cores = chance.choice((1, 2, 4, 8, 16))
        return {"cpu": cores, "mem": f"{cores * chance.choice((2, 4, 8))}g"}
    gpus = chance.choice(GPUS)
    return {
        "cpu": gpus * chance.choice((2, 4, 8)),
        "mem": f"{gpus * chance.choice((16, 32, 60))}g",
        "gpu": chance.choice(PARTS) if is_fractional and gpus == 1 else gpus,
    }


@dataclass(slots=True)
class Tally:
    submitted: int = 0
    refused: int = 0


def submit(
    people: People,
    *,
    per_s: float,
    seconds: float,
    most_waiting: int,
    has_gpus: bool,
    is_fractional: bool = False,
) -> Iterator[Tally]:
    """Submit `per_s` sessions per second for `seconds` (0: without end), while fewer than
    `most_waiting` are pending. Yields a tally about once a second.
    """
    tally, began_at = Tally(), time.monotonic()
    requests = workload(people, seed=int(time.time()), has_gpus=has_gpus, is_fractional=is_fractional)
    while not seconds or time.monotonic() - began_at < seconds:
        round_at = time.monotonic()
        waiting = ComputeSession.objects.waiting().filter(resource_group__name=people.group).count()
        for size in arrays(min(max(1, round(per_s)), max(0, most_waiting - waiting))):
            actor, request = next(requests)
            try:
                _submit(actor, request, size)
                tally.submitted += size
            except BerthError:  # a policy limit, as in production
                tally.refused += size
        yield tally
        time.sleep(max(0.0, 1 - (time.monotonic() - round_at)))


def arrays(sessions: int) -> list[int]:
    """Split a number of sessions into requests: a few single ones, or about ten bulk requests of up
    to MOST_ALIKE sessions each.
    """
    size = max(1, min(MOST_ALIKE, sessions // 10))
    full, rest = divmod(sessions, size)
    return [size] * full + [rest] * bool(rest)


def _submit(actor: Actor, request: SessionRequest, size: int) -> None:
    if size == 1:
        enqueue_session(actor=actor, request=request)
        return
    alike = [replace(request, name=f"{request.name}-{number}") for number in range(1, size + 1)]
    enqueue_batch(actor=actor, requests=alike)


@dataclass(frozen=True, slots=True)
class Cleared:
    """Numbers of removed objects. `retired` agents are kept because sessions of real users name
    them; `kept` are domains and projects that real users use.
    """

    agents: int
    retired: int
    sessions: int
    kept: tuple[str, ...] = ()


def clear() -> Cleared:
    """Remove all simulated objects and nothing else. Idempotent, also after a crash.
    Sessions of real users in such groups are terminated and kept; domains and projects that
    real users use are kept too.
    """
    groups, shelves = _our_groups(), f"{settings.BERTH_INSTALLATION}:"
    _end_sessions_of_others(groups)
    clear_shared_states(shelves)  # before the rows: a container without a row is reported
    sessions = _remove_sessions(_our_sessions())
    cleared = _remove_groups(groups, sessions)
    clear_shared_states(shelves)  # launched meanwhile
    return cleared


def clear_group(name: str) -> Cleared:
    """Remove simulated objects of this group like `clear`; users go with the last group."""
    groups = [group for group in _our_groups() if group.name == name]
    machines = Agent.objects.filter(resource_group__in=groups).values_list("name", flat=True)
    shelves = [f"{settings.BERTH_INSTALLATION}:{machine}" for machine in machines]
    _end_sessions_of_others(groups)
    remove_shared_states(shelves)
    sessions = _remove_sessions(_our_sessions().filter(resource_group__in=groups))
    cleared = _remove_groups(groups, sessions)
    remove_shared_states(shelves)
    return cleared


def _our_groups() -> list[ResourceGroup]:
    found = ResourceGroup.objects.present().filter(Q(description=TITLE) | Q(agents__address__contains=SHARED))
    return list(filter(is_ours, found.distinct()))


def _our_sessions() -> ComputeSessionQuerySet:
    ours: ComputeSessionQuerySet = ComputeSession.objects.filter(owner__email__endswith=OURS)
    return ours


def _end_sessions_of_others(groups: Sequence[ResourceGroup]) -> None:
    live = ComputeSession.objects.live().filter(resource_group__in=groups)
    for session in live.exclude(owner__email__endswith=OURS):
        terminate_session(actor=SYSTEM, session_id=session.pk)


def _remove_sessions(sessions: ComputeSessionQuerySet) -> int:
    """Delete the sessions in batches; return their number."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SET CONSTRAINTS ALL IMMEDIATE"
        )  # checking all at the end would exceed the response timeout
    removed = 0
    while ids := list(sessions.order_by("pk").values_list("pk", flat=True)[:SESSIONS_AT_ONCE]):
        _remove_at_once(ids)
        removed += len(ids)
    return removed


@transaction.atomic
def _remove_at_once(ids: Sequence[UUID]) -> None:
    """Delete one batch. The deletion releases allocations and dependents. Rows are locked first, so
    that a worker that ends one of them releases its allocations afterwards.
    """
    list(ComputeSession.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    SessionDependency.objects.filter(Q(session__in=ids) | Q(after__in=ids)).delete()
    KernelAllocation.objects.filter(kernel__session__in=ids).delete()
    ComputeSession.objects.filter(pk__in=ids).delete()


def _remove_groups(groups: Sequence[ResourceGroup], sessions: int) -> Cleared:
    """Remove the groups and their agents, and with the last group the users; return counts."""
    counts = [remove_simulated_agents(actor=SYSTEM, group=group) for group in groups]
    kept = () if _our_groups() else _remove_people()
    return Cleared(sum(each[0] for each in counts), sum(each[1] for each in counts), sessions, kept)


@transaction.atomic
def _remove_people() -> tuple[str, ...]:
    """Remove simulated users, unused domains and projects; return the names of those in use."""
    people = User.objects.filter(email__endswith=OURS, sessions=None, folders=None)
    domains, projects = _scopes()
    nothing_of_others = {"sessions": None, "arrays": None, "folders": None}
    ids = list(people.values_list("pk", flat=True))
    SessionDependency.objects.filter(after_array__owner__in=ids).delete()
    SessionArray.objects.filter(owner__in=ids).delete()
    Membership.objects.filter(user__in=ids).delete()
    counts = {
        level: _remove_scopes(level, rows)
        for level, rows in (
            (Level.USER, people),
            (Level.PROJECT, projects.filter(memberships=None, **nothing_of_others)),
            (Level.DOMAIN, domains.filter(users=None, projects=None, invitations=None, **nothing_of_others)),
        )
    }
    if any(counts.values()):
        lines = AuditEntry.objects.filter(actor_id__in=ids).delete()[0]
        ContainerImage.objects.filter(reference=IMAGE, sessions=None).delete()
        audit_log.record(
            actor=SYSTEM, action="portal.remove_simulated_people", changes={"audit_lines": lines}
        )
    teams = (f"{domain}/{name}" for domain, name in projects.values_list("domain__name", "name"))
    return (*domains.values_list("name", flat=True), *teams)


def _remove_scopes(level: Level, rows: QuerySet[Any]) -> int:
    """Delete the rows with their limit usage; return their number."""
    ids = list(rows.values_list("pk", flat=True))
    LimitUse.objects.filter(level=level.value, scope_id__in=ids).delete()
    rows.model.objects.filter(pk__in=ids).delete()
    return len(ids)
