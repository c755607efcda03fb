"""Checks what a request demands of accelerators against those of its resource group, and turns a part
of a device by memory and compute into a share. No queries.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.utils.translation import gettext as _

from agents.capacity.device_kinds import DeviceKind
from agents.core.isolation import Isolation, SharingMode, offered_isolation, usable_mode
from agents.models import SharingRule
from agents.selectors import MachineTraits
from agents.vendors.sharing import sharing_modes
from common.errors import InvalidInput, LimitExceeded, NotFound
from common.i18n import paragraph
from common.values.resources import (
    CPU,
    MEM,
    MIG,
    MILLI,
    ResourceSlots,
    format_amount,
    format_bytes,
    format_version,
    slot_title,
    split_part,
)
from common.values.text import quoted
from images.models import ContainerImage
from sessions_app.core.device_request import ANY_KIND, DevicePart, api_version
from sessions_app.core.request import Resources, SessionRequest

CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class GroupDevices:
    """Accelerators of a resource group on machines that can run the image.

    `models` are those that a request can name. `rules` has the sharing rule of each model of `kinds`.
    """

    group: str
    image: ContainerImage
    models: Sequence[str] = ()
    kinds: Sequence[DeviceKind] = ()
    rules: Mapping[str, SharingRule] = field(default_factory=dict)


def resolve_model(devices: GroupDevices, wanted: str) -> str:
    """Return the model that this text names: the model itself, or the only one that contains it, in
    upper or lower case. Raises NotFound, InvalidInput if several do.
    """
    if not wanted or wanted in devices.models:
        return wanted
    found = [model for model in devices.models if wanted.casefold() in model.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        sentence = _("{model} fits several models: {names}.").format(
            model=quoted(wanted), names=", ".join(found)
        )
        raise InvalidInput(sentence, hint=_("Write more of the name."), fields={"device_model": [sentence]})
    sentence = _("No machine of the resource group “{group}” has the accelerators {model}.").format(
        group=devices.group, model=quoted(wanted)
    )
    hint = _("It has {names}.").format(names=", ".join(devices.models)) if devices.models else ""
    raise NotFound(sentence, hint=hint, fields={"device_model": [sentence]})


def resolve_devices(devices: GroupDevices, request: SessionRequest) -> SessionRequest:
    """Return the request with its part of a device as a share of the slot, and the least memory of the
    devices for which that share is right.

    The model must be resolved. A part must fit every device that the scheduler could choose, so its
    memory is divided by the least memory of devices that are large enough. Smaller devices that come
    later are no candidates. Raises LimitExceeded that names the largest that fits, InvalidInput.
    """
    request = _name_kind(devices, request)
    slot = _slot_of(request)
    if not slot:
        return request
    kinds: Sequence[DeviceKind] = [kind for kind in devices.kinds if kind.slot == slot]
    if slot.startswith(MIG) and not kinds and not any(rule.mig_on_demand for rule in devices.rules.values()):
        raise _no_such_slice(devices, slot)
    _check_image(devices, slot)
    kinds = [kind for kind in kinds if request.device_model in ("", kind.agent_model)]
    request = _with_image_version(devices, request, kinds, slot)
    kinds = _new_enough(devices, request, kinds)
    part = DevicePart.of(request.slots)
    kinds = _large_enough(devices, request, kinds, part)
    if request.linked_devices:
        _check_linked(devices, request, kinds, slot)
    share = request.slots[slot]
    if part is not None:
        mem_bytes = min((kind.mem_bytes for kind in kinds), default=0) if part.mem_bytes else 0
        share = part.share(mem_bytes)
        resources = Resources(part.in_slots(request.slots, share), request.shm_bytes, part)
        least = max(request.device_mem, mem_bytes)
        request = replace(request, resources=resources, device_mem=least)
    if share % MILLI:
        _check_sharing(devices, request, kinds, share)
    return request


def _slot_of(request: SessionRequest) -> str:
    return next((split_part(name)[0] for name in request.slots if name not in (CPU, MEM)), "")


def _name_kind(devices: GroupDevices, request: SessionRequest) -> SessionRequest:
    """Return the request with the slot of the group instead of "gpu", which means its only kind of
    accelerators. Raises InvalidInput if it has several.
    """
    known = {kind.slot for kind in devices.kinds}
    if _slot_of(request) != ANY_KIND or ANY_KIND in known:
        return request
    kinds = sorted(
        {
            kind.slot
            for kind in devices.kinds
            if request.device_model in ("", kind.agent_model) and not kind.slot.startswith(MIG)
        }
    )
    if len(kinds) > 1:
        sentence = _("“{group}” has several kinds of accelerators: {names}.").format(
            group=devices.group, names=", ".join(kinds)
        )
        hint = _("Name one of them: in a command {option} instead of {general}, by REST {body}.").format(
            option=f"--resource {kinds[0]}=1", general="--gpu", body=f'"resources": {{"{kinds[0]}": 1}}'
        )
        raise InvalidInput(sentence, hint=hint, fields={"resources": [paragraph([sentence, hint])]})
    if not kinds:
        return request
    slots = ResourceSlots(
        {
            name.replace(ANY_KIND, kinds[0], 1) if split_part(name)[0] == ANY_KIND else name: amount
            for name, amount in request.slots.items()
        }
    )
    return replace(request, resources=Resources(slots, request.shm_bytes))


def machine_needs(request: SessionRequest, architecture: str) -> MachineTraits:
    """Return what a machine must have besides the amounts."""
    return MachineTraits(
        architecture, request.device_model, request.device_mem, api_version(request.device_api)
    )


def without_parts(request: SessionRequest) -> SessionRequest:
    """Return the request without the part of a device that could not be resolved."""
    part = DevicePart.of(request.slots)
    if part is None:
        return request
    return replace(request, resources=Resources(part.in_slots(request.slots, 0), request.shm_bytes))


def _no_such_slice(devices: GroupDevices, slot: str) -> LimitExceeded:
    sentence = _("No machine of “{group}” has slices {profile}.").format(
        group=devices.group, profile=slot_title(slot)
    )
    profiles = sorted({kind.slot for kind in devices.kinds if kind.slot.startswith(MIG)})
    names = ", ".join(map(slot_title, profiles))
    hint = _("It has {names}.").format(names=names) if names else _("It has no MIG slices.")
    return LimitExceeded(sentence, hint=hint, fields={"resources": [paragraph([sentence, hint])]})


def _check_image(devices: GroupDevices, slot: str) -> None:
    """Raise InvalidInput if the image states that it cannot use such devices."""
    usable = devices.image.accelerators
    if not usable or slot in usable or (slot.startswith(MIG) and CUDA in usable):
        return
    sentence = _("The image {image} cannot use {device}.").format(
        image=devices.image, device=slot_title(slot)
    )
    hint = _("It can use {names}.").format(names=", ".join(map(slot_title, usable)))
    raise InvalidInput(sentence, hint=hint, fields={"resources": [paragraph([sentence, hint])]})


def _with_image_version(
    devices: GroupDevices, request: SessionRequest, kinds: Sequence[DeviceKind], slot: str
) -> SessionRequest:
    """Return the request with at least the CUDA that the image needs. Raises LimitExceeded if no machine
    supports it; one whose version is not known could.
    """
    least, newest = devices.image.min_cuda, max((kind.api_version for kind in kinds), default=0)
    is_cuda = slot == CUDA or slot.startswith(MIG)
    if not is_cuda or not newest or least <= api_version(request.device_api):
        return request
    if newest >= least:
        return replace(request, device_api=format_version(least))
    sentence = _("The image {image} needs CUDA {version}, and no machine of “{group}” supports it.").format(
        image=devices.image, version=format_version(least), group=devices.group
    )
    hint = _("The newest is {version}.").format(version=format_version(newest))
    raise LimitExceeded(sentence, hint=hint, fields={"image": [paragraph([sentence, hint])]})


def _new_enough(
    devices: GroupDevices, request: SessionRequest, kinds: Sequence[DeviceKind]
) -> Sequence[DeviceKind]:
    """Return the kinds whose driver supports the version. Raises LimitExceeded if none does."""
    least = api_version(request.device_api)
    found = [kind for kind in kinds if kind.api_version >= least]
    if kinds and not found:
        newest = max(kind.api_version for kind in kinds)
        sentence = _("No machine of “{group}” supports version {version} of CUDA or ROCm.").format(
            group=devices.group, version=request.device_api
        )
        hint = (
            _("The newest is {version}.").format(version=format_version(newest))
            if newest
            else _("Its versions are not known.")
        )
        raise LimitExceeded(sentence, hint=hint, fields={"device_api": [paragraph([sentence, hint])]})
    return found


def _large_enough(
    devices: GroupDevices, request: SessionRequest, kinds: Sequence[DeviceKind], part: DevicePart | None
) -> Sequence[DeviceKind]:
    """Return the kinds with enough memory. Raises LimitExceeded that names the largest memory."""
    least, field_name = request.device_mem, "device_mem"
    if part is not None and part.mem_bytes > least:
        least, field_name = part.mem_bytes, "resources"
    if not least:
        return kinds
    found = [kind for kind in kinds if kind.mem_bytes >= least]
    if found:
        return found
    largest = max((kind.mem_bytes for kind in kinds), default=0)
    sentence = _("No accelerator in “{group}” that suits has {amount} of memory.").format(
        group=devices.group, amount=format_bytes(least)
    )
    hint = (
        _("The largest that fits is {amounts}.").format(amounts=format_bytes(largest))
        if largest
        else _("Its memory is not known. Ask for a part like 0.5, without an amount of memory.")
    )
    raise LimitExceeded(sentence, hint=hint, fields={field_name: [paragraph([sentence, hint])]})


def _check_linked(
    devices: GroupDevices, request: SessionRequest, kinds: Sequence[DeviceKind], slot: str
) -> None:
    count = request.slots[slot] // MILLI
    most = max((kind.linked for kind in kinds), default=0)
    if count <= most:
        return
    sentence = _("No machine of “{group}” has {amount} that are linked with each other.").format(
        group=devices.group, amount=format_amount(slot, count * MILLI)
    )
    hint = (
        _("The largest that fits is {amounts}.").format(amounts=format_amount(slot, most * MILLI))
        if most > 1
        else _("It has no linked accelerators.")
    )
    raise LimitExceeded(sentence, hint=hint, fields={"linked_devices": [paragraph([sentence, hint])]})


def _check_sharing(
    devices: GroupDevices, request: SessionRequest, kinds: Sequence[DeviceKind], share: int
) -> None:
    """Check that every device that could be chosen may be shared in this part, as well isolated.
    Raises InvalidInput.
    """
    refusals: dict[str, str] = {}  # by model
    for model in sorted({kind.model for kind in kinds}):
        rule = devices.rules.get(model)
        if rule is None:
            continue
        alike = [kind for kind in kinds if kind.model == model]
        if refusal := _objection(rule, request, share, alike):
            refusals[model] = refusal
    if not refusals:
        return
    model, sentence = next(iter(refusals.items()))
    named = _("{model} in “{group}”: {sentence}").format(
        model=model or _("Accelerators"), group=devices.group, sentence=sentence
    )
    others = {kind.model for kind in kinds if kind.agent_model} - refusals.keys()
    hint = _models_hint(others)
    raise InvalidInput(named, hint=hint, fields={"resources": [paragraph([named, hint])]})


def _models_hint(models: Collection[str]) -> str:
    if not models:
        return _("Ask for a whole device.")
    return _("Name a model that allows it: {names}.").format(names=", ".join(sorted(models)))


def _objection(rule: SharingRule, request: SessionRequest, share: int, kinds: Sequence[DeviceKind]) -> str:
    """Return why this share of a device of these kinds, which are of one model, is refused; "" if it is not."""
    if rule.mode == SharingMode.FORBIDDEN:
        return _("A device is not shared here, so no part of one can be asked for.")
    modes = [usable_mode(SharingMode(rule.mode), sharing_modes(kind.vendor)) for kind in kinds]
    if SharingMode.FORBIDDEN in modes:
        return _("A device takes one program at a time, so no part of one can be asked for.")
    if share < rule.smallest_share:
        return _("The smallest part of a device is {amount}.").format(
            amount=f"{rule.smallest_share / MILLI:g}"
        )
    if SharingMode.MPS in modes and share != rule.smallest_share:
        return _("All parts of a device have one size here: {amount}.").format(
            amount=f"{rule.smallest_share / MILLI:g}"
        )
    levels = [offered_isolation(mode, kind.api_version) for mode, kind in zip(modes, kinds, strict=True)]
    offered = max(levels, key=lambda level: level.rank)
    if request.isolation and not offered.is_at_least(Isolation(request.isolation)):
        return _("Parts of a device are isolated at the level “{level}”, below “{least}”.").format(
            level=offered.value, least=request.isolation
        )
    return ""
