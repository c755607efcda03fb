"""Messages about capacity reserved for other sessions name only what would help."""

from dataclasses import replace
from datetime import timedelta

from scheduler.engine import (
    PendingSession,
    PlacementGroup,
    PlacementRule,
    Policy,
    ReasonCode,
    Rules,
    RunningAllocation,
    Snapshot,
    plan,
)
from scheduler.explain.messages import message_for
from tests.unit.scheduler.engine.test_accelerators import agent as device_agent
from tests.unit.scheduler.engine.test_accelerators import session as device_session
from tests.unit.scheduler.engine.test_accelerators import slots
from tests.unit.scheduler.engine.test_backfill import NOW, agent, reasons, session


def of_arm(waits: PendingSession) -> PendingSession:
    return replace(waits, requirements=replace(waits.requirements, architecture="aarch64"))


def test_a_priority_above_theirs_is_named_where_it_helps_and_not_where_waiting_counts():
    first, passed = replace(session(1, 8, waited=600), priority=5), session(2, 4)
    for policy in Policy:
        for ageing, is_named in ((None, True), (timedelta(hours=1), False)):
            rules = Rules(policy=policy, ageing=ageing)
            raised = replace(passed, priority=6)
            waits, starts = (
                plan(Snapshot(1, "lab", 0, (agent(1, (4, 30)),), (first, each), rules), NOW)
                for each in (passed, raised)
            )
            assert reasons(waits)[2] is ReasonCode.PRIORITY
            assert (
                "priority above theirs" in str(message_for(waits.deferrals[1].explanation, "lab"))
            ) is is_named
            assert bool(starts.placements) is is_named


def test_a_time_limit_is_named_only_where_it_would_help_on_its_own_machines():
    patient = Rules(patience=timedelta(minutes=10))
    arm = replace(agent(2, (4, 5)), architecture="aarch64")
    pending = (session(1, 8, waited=20), of_arm(session(2, 8, waited=15)), session(3, 2))
    unknown = Snapshot(1, "lab", 0, (agent(1, unknown=4), arm), (*pending, of_arm(session(4, 2))), patient)
    said = {
        each.session_id.int: str(message_for(each.explanation, "lab"))
        for each in plan(unknown, NOW).deferrals
    }
    assert ["time limit" in said[number] for number in (3, 4)] == [False, True]
    short = replace(
        unknown, pending=(*pending[:2], session(3, 2, minutes=1), of_arm(session(4, 2, minutes=1)))
    )
    assert [each.session_id.int for each in plan(short, NOW).placements] == [4]


def test_message_names_higher_priority_only_if_one_waits():
    """What is kept of a placement group is opened with the rest, and closed again for nobody."""
    pack = PlacementGroup("web", PlacementRule.STRICT_PACK)
    first, waits = session(1, 8, minutes=60, placement_group=pack), session(2, 1, placement_group=pack)
    agents = (agent(1, (8, 30)), agent(2, unknown=6))
    decided = plan(Snapshot(1, "lab", 0, agents, (first, waits), Rules()), NOW)
    assert reasons(decided)[2] is ReasonCode.KEPT_FREE


def test_a_time_limit_is_not_named_where_nothing_is_lent_that_is_large_enough():
    first = session(1, 8, minutes=60, designated=1)
    gathers = session(2, 8, designated=2, waited=20)
    agents = (agent(1, (7, 30)), agent(2, unknown=4))
    rules = Rules(patience=timedelta(minutes=10))
    short = replace(session(3, 4), max_runtime=timedelta(seconds=1))
    decided = plan(Snapshot(1, "lab", 0, agents, (gathers, first, short), rules), NOW)
    [why] = [each.explanation for each in decided.deferrals if each.session_id == short.id]
    assert (why.reason, why.is_end_known) == (ReasonCode.KEPT_FREE, False)


def test_message_says_that_a_share_is_reserved_for_a_higher_priority():
    """Who looks with it, as it was kept, finds the device; and finds nothing once it is kept for one of no higher priority."""
    first, passed = (device_session(number, gpu) for number, gpu in ((1, 2000), (2, 500)))
    there = device_agent(
        1, 2, whole=1, running=(RunningAllocation(slots(1000), NOW + timedelta(minutes=30)),)
    )
    for priority, reason in ((5, ReasonCode.PRIORITY), (0, ReasonCode.KEPT_FREE)):
        pending = (replace(first, priority=priority), passed)
        decided = plan(Snapshot(1, "lab", 0, (there,), pending, Rules()), NOW)
        assert reasons(decided) == {1: ReasonCode.NO_CAPACITY, 2: reason}
