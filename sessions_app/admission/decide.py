"""Decides from loaded admission inputs whether a request for a session is accepted.

Reads no database, so submitting a request and checking it beforehand give the same answer.
"""

from collections.abc import Callable, Sequence

from django.utils.translation import gettext as _

from accounts.budgets import selectors
from accounts.core import allow_lists
from accounts.limits import check_limits
from common.errors import BerthError, InvalidInput, LimitExceeded
from common.i18n import paragraph
from common.values.resources import ResourceSlots, format_slots, placeable_count
from images.selectors import allow_list_values
from sessions_app.admission.inputs import AdmissionInputs
from sessions_app.admission.names import name_conflict
from sessions_app.core.placement import Gang
from sessions_app.core.request import conflicting_path, path_conflict_message
from sessions_app.limits.designated_agent import check_designated_agent
from sessions_app.limits.device_requirements import machine_needs
from sessions_app.limits.group_rules import check_group_rules
from sessions_app.limits.policy_limits import exceeded_limits, exceeded_priority_limits
from sessions_app.queue.dependencies import check_possible


def decide(inputs: AdmissionInputs) -> list[BerthError]:
    """Return all refusals; the first is the one to raise. Empty if the request is accepted."""
    refusals = []
    for check in CHECKS:
        try:
            check(inputs)
        except BerthError as error:
            refusals.append(error)
    return refusals


def require_admissible(inputs: AdmissionInputs) -> None:
    """Raise the first refusal, if there is any."""
    for refusal in decide(inputs):
        raise refusal


def _check_group(inputs: AdmissionInputs) -> None:
    check_group_rules(inputs.group, inputs.request)


def _check_mounts(inputs: AdmissionInputs) -> None:
    _check_resolved(inputs, "mounts")
    if clash := conflicting_path([mount.path for mount in inputs.mounts]):
        raise InvalidInput(path_conflict_message(clash), fields={"mounts": [path_conflict_message(clash)]})


def _check_dependencies(inputs: AdmissionInputs) -> None:
    _check_resolved(inputs, "dependencies")
    for index, dependency in enumerate(inputs.dependencies):
        check_possible(index, dependency)


def _check_callback(inputs: AdmissionInputs) -> None:
    _check_resolved(inputs, "callback_url")


def _check_devices(inputs: AdmissionInputs) -> None:
    for field in ("device_model", "resources"):
        _check_resolved(inputs, field)


def _check_agent(inputs: AdmissionInputs) -> None:
    _check_resolved(inputs, "designated_agent")
    if inputs.agent is not None:
        check_designated_agent(inputs.agent, inputs.image, inputs.request)


def _check_enough_for_image(inputs: AdmissionInputs) -> None:
    requested, minimum = inputs.request.slots, ResourceSlots(inputs.image.min_slots)
    if not minimum.fits_in(requested):
        raise InvalidInput(
            _("The image {image} needs at least {least}; you asked for {asked}.").format(
                image=inputs.image, least=format_slots(minimum), asked=format_slots(requested)
            ),
            fields={"resources": [_("At least {amounts}.").format(amounts=format_slots(minimum))]},
        )


def _check_size(inputs: AdmissionInputs) -> None:
    """Raise LimitExceeded if no machine of the group is large enough for the request.

    Only machines that can run the image and have the requested device model count.
    """
    if inputs.has_machine:
        return
    request, group = inputs.request, inputs.group.name
    model = request.device_model
    needs = machine_needs(request, inputs.image.architecture)
    requested = _unmet_amounts(inputs)
    capacities = {
        name: [machine.capacity for machine in machines if machine.suits(needs)]
        for name, machines in inputs.machine_sizes.items()
    }
    roomy = [name for name in sorted(capacities) if any(requested.fits_in(each) for each in capacities[name])]
    elsewhere = [
        _("The resource group “{group}” has a machine that is large enough.").format(group=name)
        for name in roomy[:1]
    ]
    here = capacities.get(group, [])
    if not here:
        raise _no_machine(inputs, elsewhere)
    largest = max(
        here,
        key=lambda capacity: sum(
            min(requested[name], capacity[name]) / requested[name] for name in requested
        ),
    )
    sentence = (
        _("No machine of “{group}” with {model} has {amounts}.")
        if model
        else _("No machine of “{group}” has {amounts}.")
    ).format(group=group, model=model, amounts=format_slots(requested))
    fits = _("The largest that fits is {amounts}.").format(amounts=format_slots(largest))
    any_model = [_("Ask for less, or for any model.")] if model else []
    if request.cluster_size > 1 and request.cluster_mode == Gang.ONE_MACHINE:
        any_model.append(_("Let the containers run on several machines."))
    hint = paragraph([fits, *any_model, *elsewhere])
    field = "device_model" if model else "resources"
    raise LimitExceeded(sentence, hint=hint, fields={field: [paragraph([sentence, hint])]})


def _unmet_amounts(inputs: AdmissionInputs) -> ResourceSlots:
    """Return the first amounts that no machine of the group has, of those that one machine must have."""
    request = inputs.request
    needs = machine_needs(request, inputs.image.architecture)
    machines = [each for each in inputs.machine_sizes.get(inputs.group.name, ()) if each.suits(needs)]
    unmet = (
        slots for slots in request.slots_at_once if not any(slots.fits_in(each.capacity) for each in machines)
    )
    return next(unmet, request.slots_at_once[0])


def _check_cluster(inputs: AdmissionInputs) -> None:
    """Raise LimitExceeded if the machines of the group, all empty, cannot hold all containers."""
    request = inputs.request
    if request.cluster_size == 1 or request.cluster_mode == Gang.ONE_MACHINE or not inputs.has_machine:
        return
    needs = machine_needs(request, inputs.image.architecture)
    machines = [each for each in inputs.machine_sizes.get(inputs.group.name, ()) if each.suits(needs)]
    is_spread = request.cluster_mode == Gang.SPREAD
    placed = placeable_count(
        request.container_slots, [each.capacity for each in machines], is_spread=is_spread
    )
    if placed == request.cluster_size:
        return
    sentence = (
        _(
            "Each of {asked} containers needs a machine of its own, and “{group}” has {count} that can run one."
        )
        if is_spread
        else _("All machines of “{group}” together can run {count} of these {asked} containers.")
    ).format(asked=request.cluster_size, group=inputs.group.name, count=placed)
    hint = _("Ask for fewer containers, or choose another resource group.")
    raise LimitExceeded(sentence, hint=hint, fields={"cluster_size": [paragraph([sentence, hint])]})


def _no_machine(inputs: AdmissionInputs, elsewhere: Sequence[str]) -> LimitExceeded:
    hint = next(
        iter(elsewhere), _("Choose another resource group, or ask an administrator to add a machine.")
    )
    group, image = inputs.group.name, inputs.image
    if group not in inputs.machine_sizes:
        return LimitExceeded(_("The resource group “{group}” has no machine.").format(group=group), hint=hint)
    if any(each.offers.architecture == image.architecture for each in inputs.machine_sizes[group]):
        sentence = _("No machine of “{group}” has accelerators of this model, memory and version.").format(
            group=group
        )
        return LimitExceeded(sentence, hint=hint, fields={"resources": [paragraph([sentence, hint])]})
    sentence = _("The image {image} is for {architecture}, and no machine of “{group}” is.").format(
        image=image, architecture=image.architecture, group=group
    )
    return LimitExceeded(sentence, hint=hint, fields={"image": [paragraph([sentence, hint])]})


def _check_limits(inputs: AdmissionInputs) -> None:
    """Raise a refusal that names every limit, allow-list and budget the request exceeds."""
    scopes, request = inputs.scopes, inputs.request
    check_limits(
        (
            *exceeded_limits(scopes, request, len(inputs.requests)),
            *exceeded_priority_limits(inputs.actor, scopes, request.priority),
            *inputs.folder_limits,
        ),
        selectors.budget_refusals(inputs.budgets),
        allow_lists.refusing_lists(scopes, allow_list_values(inputs.image)),
    )


def _check_names(inputs: AdmissionInputs) -> None:
    for request in inputs.requests:
        if request.name in inputs.used_names:
            raise name_conflict(request.name)


def _check_resolved(inputs: AdmissionInputs, field: str) -> None:
    if (refusal := inputs.unresolved.get(field)) is not None:
        raise refusal


CHECKS: Sequence[Callable[[AdmissionInputs], None]] = (
    _check_group, _check_mounts, _check_dependencies, _check_callback, _check_devices, _check_agent,
    _check_enough_for_image, _check_size, _check_cluster, _check_limits, _check_names,
)  # fmt: skip
