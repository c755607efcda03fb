"""Messages that explain why a session waits."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    Explanation,
    Gang,
    PendingSession,
    ReasonCode,
    Requirements,
    Snapshot,
    plan,
)
from scheduler.engine.agent_views import Closure
from scheduler.explain.messages import message_for

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GIB = 2**30


def sentence(
    agents: list[tuple[dict, dict]],
    *kernels: dict,
    designated_agent_id: int | None = None,
    gang: Gang = Gang.ANYWHERE,
) -> str:
    """Why one session with these kernels waits, given (capacity, free) of each agent."""
    views = tuple(
        AgentView(number, "x86_64", ResourceSlots(capacity), ResourceSlots(free))
        for number, (capacity, free) in enumerate(agents, start=1)
    )
    needs = Requirements(
        "x86_64", tuple(ResourceSlots(each) for each in kernels), designated_agent_id, gang=gang
    )
    pending = PendingSession(UUID(int=9), NOW, needs, tuple(UUID(int=i) for i in range(len(kernels))))
    [deferral] = plan(Snapshot(1, "lab", 0, views, (pending,)), NOW).deferrals
    return str(message_for(deferral.explanation, "lab"))


MACHINE = {"cpu": 4000, "mem": 8 * GIB}


@pytest.mark.parametrize(
    ("agents", "kernels", "expected"),
    [
        (
            [],
            [{"cpu": 1000}],
            "No agent of resource group “lab” takes x86_64 sessions now. It starts when one does.",
        ),
        (
            [(MACHINE, MACHINE)],
            [{"cpu": 8000, "mem": GIB, "cuda": 1000}],
            (
                "Asks for 8 cores, 1 × NVIDIA GPU on one agent, but the largest of resource group “lab” has only"
                " 4 cores, 0 × NVIDIA GPU. It can never start: cancel it and ask for less."
            ),
        ),
        (
            [(MACHINE, MACHINE)],
            [{"cpu": 3000}] * 2,
            (
                "Asks for 6 cores in 2 containers, but all agents of resource group “lab” have only 4 cores together."
                " It can never start: cancel it and ask for less."
            ),
        ),
        (
            [(MACHINE, {"cpu": 1000, "mem": 8 * GIB})],
            [{"cpu": 2000, "mem": GIB}],
            "Waits for 2 cores: the agent of resource group “lab” with the most room has 1 core free.",
        ),
        (
            [(MACHINE, {"cpu": 1000})] * 2,
            [{"cpu": 2000}] * 2,
            "Waits for 4 cores for its 2 containers together: resource group “lab” has 2 cores free.",
        ),
        (
            [(MACHINE, {"cpu": 1500})] * 2,
            [{"cpu": 2000}],
            (
                "Waits for 2 cores on one agent: resource group “lab” has 3 cores free in total, but the agent with the"
                " most room only 1.5 cores."
            ),
        ),
        (
            [(MACHINE, {"cpu": 3000})] * 2,
            [{"cpu": 2000}] * 3,
            (
                "Waits for room for all 3 containers at once, up to 2 cores on one agent: resource group “lab” has"
                " 6 cores free, but on too many agents."
            ),
        ),
    ],
    ids=[
        "no agents",
        "never",
        "gang never",
        "no capacity",
        "gang no capacity",
        "fragmented",
        "gang fragmented",
    ],
)
def test_the_sentence_names_what_is_short_and_what_there_is(agents, kernels, expected):
    assert sentence(agents, *kernels) == expected


def test_message_says_that_designated_agent_is_gone():
    assert sentence([(MACHINE, MACHINE)], {"cpu": 1000}, designated_agent_id=5) == (
        "The agent that this session must run on cannot run it any more: it was retired, is in another resource group, or"
        " has other accelerators now. Cancel it and choose another agent."
    )


HALF = {"cpu": 2000, "mem": 8 * GIB}


@pytest.mark.parametrize(
    ("gang", "agents", "kernels", "expected"),
    [
        (
            Gang.ONE_MACHINE,
            [(MACHINE, MACHINE)] * 2,
            [{"cpu": 2000}] * 3,
            "Asks for 6 cores on one agent for its 3 containers together, but the largest of resource group “lab” has only 4 cores.",
        ),
        (
            Gang.ONE_MACHINE,
            [(MACHINE, HALF)] * 2,
            [{"cpu": 1000}] * 4,
            (
                "Waits for 4 cores on one agent: no agent of resource group “lab” has room for all 4 containers together."
                " The one with the most room has 2 cores free."
            ),
        ),
        (
            Gang.SPREAD,
            [(MACHINE, MACHINE)] * 3,
            [{"cpu": 1000}] * 4,
            "Needs 4 agents, each for another of its containers (up to 1 core), but resource group “lab” has only 3 that are",
        ),
        (
            Gang.SPREAD,
            [(MACHINE, MACHINE), (MACHINE, HALF)],
            [{"cpu": 3000}] * 2,
            "(up to 3 cores): resource group “lab” has 1 of them now.",
        ),
        (
            Gang.SPREAD,
            [(MACHINE, MACHINE), (MACHINE, HALF)],
            [{"cpu": 5000}] * 2,
            "Asks for 5 cores on one agent, but the largest",
        ),
    ],
)
def test_a_gang_waits_for_how_its_containers_are_to_lie(gang, agents, kernels, expected):
    assert expected in sentence(agents, *kernels, gang=gang)


def test_the_rule_of_a_placement_group_has_one():
    why = Explanation(ReasonCode.PLACEMENT_RULE, "x86_64", 1, *[ResourceSlots()] * 4)
    with pytest.raises(ValueError, match="names no placement group"):
        message_for(why, "lab")


def why(reason: ReasonCode, **facts: object) -> str:
    slots = ResourceSlots({"cpu": 1000, "mem": GIB, "atom": 2000})
    common = {"requested": slots, "requested_by_kernel": slots, "best_agent": slots, "group_total": slots}
    return str(message_for(Explanation(reason, "x86_64", **{"kernel_count": 1, **common, **facts}), "lab"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("closure", "of_all", "of_one"),
    [
        (
            Closure(),
            "All agents of resource group “lab” that could run it are in maintenance. It starts when one takes",
            "The agent that this session must run on is in maintenance. It starts when that agent takes",
        ),
        (
            Closure(until=NOW, because="disk change"),
            "that could run it are in maintenance until 2030-01-01 00:00 UTC: disk change.",
            "must run on is in maintenance until 2030-01-01 00:00 UTC: disk change.",
        ),
        (
            Closure(sandbox="gvisor"),
            "No agent of resource group “lab” that could run it has the sandbox gVisor.",
            "must run on lacks the sandbox gVisor of resource group “lab”. Cancel it and choose another agent.",
        ),
    ],
)
def test_closed_agents_are_named_with_what_closes_them(closure: Closure, of_all: str, of_one: str) -> None:
    assert of_all in why(ReasonCode.NO_AGENTS, closure=closure)
    assert of_one in why(ReasonCode.AGENT_UNAVAILABLE, closure=closure)


def test_storage_host_that_too_few_agents_reach_is_named() -> None:
    unreached = {"unreached_hosts": ("nfs", "scratch")}
    assert "could run it reaches the storage host of its folders: nfs, scratch." in why(
        ReasonCode.STORAGE_UNREACHED, **unreached
    )
    assert "Each of its 3 containers needs an agent of its own, and too few" in why(
        ReasonCode.STORAGE_UNREACHED, gang=Gang.SPREAD, kernel_count=3, **unreached
    )


def test_withheld_devices_that_it_waits_for_are_counted() -> None:
    told = why(ReasonCode.DEVICES_WITHHELD, withheld=ResourceSlots({"atom": 1000}))
    assert told.startswith("Waits for 2 × ")
    assert "have 1 × " in told
    assert "that are in quarantine" in told
