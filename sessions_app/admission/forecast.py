"""Forecasts a request without writing: the refusal, the agent it would get, or why it would wait.

The forecast comes from the scheduler app through the port `start_forecaster`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from accounts.core.budget_arithmetic import BudgetState
from accounts.limits import scope_ids
from accounts.models import Project
from agents.capacity.free_capacity import SessionRequirements, groups_with_capacity
from agents.models import ResourceGroup
from agents.selectors import SlotCapacity, slot_capacities, usable_resource_groups
from common import clock
from common.actors import Actor
from common.values.resources import ResourceSlots, format_version
from images.models import ContainerImage
from sessions_app.admission.inputs import AdmissionInputs
from sessions_app.admission.service import check_session
from sessions_app.core.device_request import api_version
from sessions_app.core.placement import placement_key
from sessions_app.core.request import Resources, SessionRequest
from sessions_app.limits.group_limits import groups_at_limit
from sessions_app.limits.group_rules import admits_request
from sessions_app.limits.policy_limits import max_lifetime_s, own_session_limit
from sessions_app.models import ComputeSession
from sessions_app.ports import HypotheticalSession, StartForecast, WaitForecast, start_forecaster
from sessions_app.queue import holds
from sessions_app.queue.array_release import elements_of
from sessions_app.queue.dependencies import dependency_message
from sessions_app.selectors import own_sessions

STARTS_NOW = "starts_now"


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast for a request that would be accepted.

    `other_groups`: groups that have room for it now and no waiting session. `live_sessions`: number
    of the actor's live sessions, without this one.
    """

    inputs: AdmissionInputs
    outlook: StartForecast
    other_groups: Sequence[str]
    live_sessions: int
    live_limit: int | None
    budgets: Sequence[BudgetState]
    rooms: Mapping[str, SlotCapacity]


def forecast_waiting_session(actor: Actor, session: ComputeSession) -> WaitForecast | None:
    """Return when and where a waiting session may start; None if it is in no queue.

    `other_groups` is filled only if the actor owns the session. At most 14 queries, any number of
    rows.
    """
    prospect = start_forecaster.get().forecast_wait(session)
    is_alone = session.kernel_count == 1
    if prospect is None or not (prospect.waits_for_group and is_alone) or session.owner_id != actor.user_id:
        return prospect
    image = session.image
    asked = SessionRequest(
        name=session.name,
        project=session.project.name,
        image=image.reference,
        type=session.type,
        resources=Resources(ResourceSlots(session.requested_slots), session.shm_bytes),
        timeout_s=session.timeout_s,
        device_model=session.device_model,
        device_mem=session.device_mem_bytes,
        device_api=format_version(session.device_api_version) if session.device_api_version else "",
        linked_devices=session.linked_devices,
        isolation=session.isolation,
    )
    others = _other_groups(
        actor, session.project, session.resource_group, image, asked, prospect.lasts, session.storage_hosts
    )
    return replace(prospect, other_groups=others)


def forecast_session(actor: Actor, request: SessionRequest) -> Forecast:
    """Return the forecast for `request` if it were submitted now.

    Raises what `enqueue_session` raises. At most 21 queries, 3 more where there are budgets and 2
    for accelerators, for any number of folders, machines and waiting sessions; half of them if
    nothing in the resource group changed since its last forecast. Permissions and limits are read
    each time.
    """
    inputs = check_session(actor, elements_of(request))
    request, image, group = inputs.request, inputs.image, inputs.group
    outlook = _start_forecast(
        inputs,
        HypotheticalSession(
            group=group,
            architecture=image.architecture,
            containers=tuple(request.container_slots),
            gang=request.cluster_mode,
            keys=inputs.scope_keys,
            scopes=inputs.scopes,
            budgets=inputs.budgets,
            lasts_s=request.timeout_s or max_lifetime_s(inputs.scopes, group),
            priority=request.priority,
            kind=(actor.user_id or 0, image.pk, request.type),
            designated_agent_id=inputs.agent.pk if inputs.agent else None,
            may_run_elsewhere=request.may_run_elsewhere,
            device_model=request.device_model,
            device_mem_bytes=request.device_mem,
            device_api_version=api_version(request.device_api),
            linked_devices=request.linked_devices,
            isolation=request.isolation,
            storage_hosts=frozenset(inputs.storage_hosts),
            placement_key=placement_key(inputs.project.pk, actor.user_id or 0, request.placement_group)
            if request.placement_group
            else "",
            placement_rule=request.placement_rule,
        ),
    )
    known = outlook.rooms
    return Forecast(
        inputs=inputs,
        outlook=outlook,
        other_groups=_other_groups(
            actor, inputs.project, group, image, request, outlook.lasts, inputs.storage_hosts
        )
        if outlook.waits_for_group
        else [],
        live_sessions=own_sessions(actor).live().count(),
        live_limit=own_session_limit(inputs.scopes),
        budgets=inputs.budgets,
        rooms=slot_capacities(actor, group_id=group.pk, architecture=image.architecture)
        if known is None
        else known,
    )


def _start_forecast(inputs: AdmissionInputs, question: HypotheticalSession) -> StartForecast:
    """Return the outlook of the request; for a request under a queue hold, only the hold reason."""
    held_by = dependency_message(inputs.dependencies, inputs.project.pk)
    state = holds.initial_hold_state(inputs.request.start_at, held_by)
    if not state.hold:
        state = inputs.image_hold or state
    if state.hold:
        return StartForecast("", state.reason.value, state.message)
    return start_forecaster.get().forecast_start(question)


def _other_groups(
    actor: Actor,
    project: Project,
    group: ResourceGroup,
    image: ContainerImage,
    request: SessionRequest,
    lasts: timedelta,
    storage_hosts: Sequence[str],
) -> list[str]:
    """Return names of other groups where it would start at once; none if it demands an isolation, which
    the rules of each group decide, or has several containers. At most 4 queries.
    """
    if request.isolation or request.cluster_size > 1:
        return []
    groups = usable_resource_groups(actor, project).filter(is_active=True).order_by("name")
    taking = [each for each in groups if each != group and admits_request(each, request)]
    limiting = groups_at_limit(taking, request.type, actor.user_id or 0, request.slots, clock.now())
    others = {each.pk: each.name for each in taking if each.pk not in limiting}
    sought = SessionRequirements(
        slots=request.slots,
        architecture=image.architecture,
        scopes=scope_ids(actor, project),
        duration=lasts,
        device_model=request.device_model,
        device_mem_bytes=request.device_mem,
        device_api_version=api_version(request.device_api),
        linked_devices=request.linked_devices,
        storage_hosts=storage_hosts,
    )
    roomy = groups_with_capacity(others, sought)
    found = {pk: name for pk, name in others.items() if pk in roomy}
    if not found:
        return []
    waiting = ComputeSession.objects.waiting().filter(resource_group_id__in=found)
    busy = set(waiting.order_by().values_list("resource_group_id", flat=True).distinct())
    return [name for pk, name in found.items() if pk not in busy]
