"""Puts verdicts of the vendors' health rules into effect: warnings, and quarantine until somebody lifts it."""

from collections.abc import Collection, Mapping
from typing import Any

from agents.accelerators.description import Health
from agents.accelerators.health import HEALTHY, Values, Verdict, judge
from agents.machines.split_devices import with_partitions
from agents.machines.withholding import warn_of_device, withhold_devices
from agents.models import Agent, AgentDevice, Withheld

Known = dict[str, dict[str, Any]]


def judge_devices(
    agent: Agent,
    rows: Collection[AgentDevice],
    rules: Mapping[str, Health],
    values: Mapping[str, Values],
    last: Mapping[str, Mapping[str, Any]],
) -> Known:
    """Judge the devices of a locked agent, and return what to pass as `last` at the next look.

    `rules` by vendor, without those that could not be looked at; `values` by device id. A verdict takes
    effect when it changes, so a device whose quarantine was lifted is not put there again for the same
    reason. A device that disappeared under a session is judged once, a free one not at all.
    """
    known: Known = {}
    for row in rows:
        health, before = rules.get(row.vendor), last.get(row.device_id)
        is_lost = not row.is_present and bool(row.occupied)
        is_told = is_lost or (row.is_present and (row.device_id in values or before is None))
        if health is None or not is_told:
            known |= {row.device_id: dict(before)} if before else {}
            continue
        now = values.get(row.device_id, {}) if row.is_present else None
        verdict = judge(health, before["values"] if before else None, now)
        if verdict != (Verdict(*before["verdict"]) if before else HEALTHY):
            _take_effect(agent, row, verdict)
        known[row.device_id] = {"values": dict(now or {}), "verdict": list(verdict)}
    return known


def _take_effect(agent: Agent, row: AgentDevice, verdict: Verdict) -> None:
    warn_of_device(row, verdict.because if verdict.state == "warn" else "")
    if verdict.state == "quarantine":
        withhold_devices(agent.pk, with_partitions(row), kind=Withheld.QUARANTINE, because=verdict.because)
