"""Acts on what meters tell of the health of devices, between the looks that judge everything.

A meter makes a verdict worse, within ten seconds; only a look makes it better.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from django.db import transaction

from agents.accelerators.description import Health
from agents.accelerators.health import Verdict, is_worse, judge, judge_xids, lasting_rules
from agents.machines.split_devices import with_partitions
from agents.machines.withholding import warn_of_device, withhold_devices
from agents.metering.scrape import MeasuredDevice
from agents.models import Agent, AgentDevice, DeviceReading, Withheld
from agents.vendors.selectors import known_vendors

log = structlog.get_logger(__name__)
XIDS = "xids"

Told = Mapping[int, Mapping[int, Mapping[str, Any]]]


def judge_measured(
    agents: Mapping[int, Agent], devices: Mapping[int, Sequence[MeasuredDevice]], told: Told
) -> None:
    """Warn of devices, or put them into quarantine, for what meters told now: the values of the health
    source by agent and device. Events count that the last stored reading did not have, and values that
    are worse than the last verdict. Two queries where anything is told, one more for events.
    """
    if not any(told.values()):
        return
    rules = {vendor.name: vendor.health for vendor in known_vendors()}
    events = _last_events(told)
    for agent_id, health in told.items():
        known = _verdicts_of(agents[agent_id])
        for device in devices[agent_id]:
            if device.pk in health and device.vendor in rules:
                own, values = rules[device.vendor], health[device.pk]
                _judge_events(agent_id, device, own, events.get((agent_id, device.pk)), values.get(XIDS))
                _judge_values(agent_id, device, own, known.get(device.device_id), values)


def _last_events(told: Told) -> dict[tuple[int, int], Any]:
    """Return {(agent, device): events of its last stored reading} of those that tell events now."""
    telling = [
        agent_id for agent_id, health in told.items() if any(values.get(XIDS) for values in health.values())
    ]
    rows: Iterable[tuple[int, Mapping[str, Any]]] = (
        DeviceReading.objects.filter(agent__in=telling).values_list("agent_id", "health") if telling else ()
    )
    return {
        (agent_id, int(pk)): values.get(XIDS) for agent_id, health in rows for pk, values in health.items()
    }


def _verdicts_of(agent: Agent) -> Mapping[str, Mapping[str, Any]]:
    return (agent.data.get("discovery") or {}).get("health") or {}


def _judge_events(agent_id: int, device: MeasuredDevice, rules: Health, before: Any, now: Any) -> None:
    verdict = judge_xids(rules, before, now)
    if verdict.state != "ok":
        log.warning("devices.driver_event", agent_id=agent_id, device_id=device.pk, xids=now)
        with transaction.atomic():
            Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
            _take_effect(agent_id, device.pk, verdict)


def _judge_values(
    agent_id: int,
    device: MeasuredDevice,
    rules: Health,
    last: Mapping[str, Any] | None,
    values: Mapping[str, Any],
) -> None:
    """Act on a verdict that is worse than the last, and remember it; a device that no look has judged yet
    is left to it.
    """
    if last is None:
        return
    verdict = judge(lasting_rules(rules), None, values)
    if not is_worse(verdict, Verdict(*last["verdict"])):
        return
    with transaction.atomic():
        agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
        known = _verdicts_of(agent).get(device.device_id)
        if known is None or not is_worse(verdict, Verdict(*known["verdict"])):
            return  # a look was faster
        agent.data["discovery"]["health"][device.device_id] = {**known, "verdict": list(verdict)}
        agent.save(update_fields=["data"])
        _take_effect(agent_id, device.pk, verdict)


def _take_effect(agent_id: int, device_id: int, verdict: Verdict) -> None:
    row = AgentDevice.objects.filter(pk=device_id).first()
    if row is None:
        return
    if verdict.state == "quarantine":
        withhold_devices(agent_id, with_partitions(row), kind=Withheld.QUARANTINE, because=verdict.because)
    else:
        warn_of_device(row, verdict.because)
