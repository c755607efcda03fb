"""Compute what the launcher displays: cards, rows, slider bounds, summary with forecast."""

import json
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.exceptions import NON_FIELD_ERRORS
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.core.allow_lists import AllowList
from accounts.web.budgets.budgets import budget_rows
from accounts.web.policies.limits import list_rows
from common.actors import Actor
from common.errors import BerthError
from common.i18n import paragraph
from common.templatetags.berth import number
from common.values.resources import (
    CPU,
    MEM,
    MILLI,
    ResourceSlots,
    format_amount,
    format_slot_list,
    format_slots,
    slot_title,
)
from sessions_app.admission.forecast import Forecast, forecast_session
from sessions_app.admission.names import suggest_name
from sessions_app.callbacks.delivery import find_callback_url
from sessions_app.core.container_spec import HOME
from sessions_app.core.request import MIN_SLOTS, SessionRequest, parse_request
from sessions_app.core.request_export import request_examples
from sessions_app.core.sizes import CUSTOM, Size, amount_input, size_key
from sessions_app.core.template_rules import template_name_stem
from sessions_app.models import ComputeSession, SessionTemplate, SessionType
from sessions_app.presentation.session import slot_words
from sessions_app.session_templates.quick_start import copy_request_body
from sessions_app.session_templates.templates import request_body
from sessions_app.web.forms import DEVICE_PREFIX, INSIDE_PREFIX, PLACE_PREFIX, LauncherForm
from sessions_app.web.launcher_devices import DeviceCard, initial_device
from sessions_app.web.launcher_fields import LauncherFields
from vfolders.selectors import own_folders

TYPE_CARDS = {
    SessionType.INTERACTIVE: ("notebook", gettext_noop("Notebook and terminal, until you stop it.")),
    SessionType.BATCH: ("terminal-2", gettext_noop("One command; ends when that has finished.")),
}
MAX_IMAGE_CARDS = 6
MIB = 2**20
STEPS = {CPU: 500, MEM: 256 * MIB}
SHOWN_GROUPS = 3
_ANCHORS = {
    "folders": "folders-title",
    "size": "size-title",
    "image": "what-title",
    "device": "devices-title",
    "device_as": "devices-title",
}
ALWAYS_SHOWN = (
    NON_FIELD_ERRORS, "type", "name", "project", "image", "command", "timeout_s", "max_retries", "requeues", "size", "cpu", "mem", "folders",
)  # fmt: skip
"""Fields outside of the section “More”."""


def form_parts(form: LauncherForm) -> dict[str, Any]:
    """Return the form as cards and rows."""
    devices = device_card_rows(form)
    return {
        "types": type_cards(form),
        "images": image_cards(form) if len(form.images) <= MAX_IMAGE_CARDS else [],
        "sizes": size_cards(form),
        "sliders": [slider(form, name) for name in (CPU, MEM)],
        "devices": devices,
        "has_chosen_device": any(row["is_chosen"] for row in devices),
        "folders": folder_rows(form),
        "automatic_folders": form.automatic,
        "room": room_facts(form),
        "has_more": any(
            name not in ALWAYS_SHOWN and not name.startswith(DEVICE_PREFIX) for name in form.errors
        ),
    }


def type_cards(form: LauncherForm) -> list[dict[str, Any]]:
    """Return [{"value", "label", "icon", "words", "is_chosen"}]."""
    chosen = form["type"].value() or SessionType.INTERACTIVE.value
    return [
        {
            "value": kind.value,
            "label": kind.label,
            "icon": icon,
            "words": _(words),
            "is_chosen": kind.value == chosen,
        }
        for kind, (icon, words) in TYPE_CARDS.items()
    ]


def image_cards(form: LauncherForm) -> list[dict[str, Any]]:
    """Return [{"image", "apps", "objection", "is_chosen"}]."""
    return [
        {
            "image": image,
            "apps": ", ".join(app.title for app in image.app_hints),
            "objection": form.image_objections.get(image.reference, ""),
            "is_chosen": image == form.chosen_image,
        }
        for image in form.images
    ]


def size_cards(form: LauncherForm) -> list[dict[str, Any]]:
    """Return presets and default sizes as [{"size", "title", "amounts", "fields", "objection",
    "is_chosen"}]; `fields` are the form values that the card fills in.
    """
    chosen = form["size"].value() or CUSTOM
    return [
        {
            "size": size,
            "title": size.title if size.is_preset else _(size.title),
            "amounts": format_slot_list(size.slots),
            "fields": json.dumps(_fields_of(size)),
            "objection": form.objection_to(size.slots),
            "is_chosen": size.key == chosen,
        }
        for size in form.sizes
    ]


def _fields_of(size: Size) -> dict[str, str]:
    """Return the amounts of a size by form field."""
    devices = initial_device(size.devices, "")
    shm = {"shm": size.shm} if size.shm else {}
    return {"cpu": size.cpu, "mem": size.mem, **devices, **shm}


def slider(form: LauncherForm, name: str) -> dict[str, Any]:
    """Return a number field with slider: {"field", "slot", "label", "room"}; the script updates it
    from `room_facts`.
    """
    return {
        "field": form[name],
        "slot": name,
        "label": slot_title(name),
        "room": room_facts(form)["slots"].get(name),
    }


def device_card_rows(form: LauncherForm) -> list[dict[str, Any]]:
    """Return cards of accelerators as [{"card", "id", "words", "has_free", "is_chosen"}]: those of the
    chosen group first. One is chosen if the form names it, in the chosen group if that has it.
    """
    chosen, group = form.entered("device"), form.chosen_group
    cards = sorted(form.device_cards, key=lambda card: group is None or card.group != group.name)
    first = next((card for card in cards if card.key == chosen), None)
    return [
        {
            "card": card,
            "id": f"{card.group}/{card.key}",
            "words": _free_words(card),
            "is_chosen": card is first,
        }
        for card in cards
    ]


def _free_words(card: DeviceCard) -> str:
    return _("{free} of {total} free").format(free=number(max(0, card.free)), total=number(card.total))


def room_facts(form: LauncherForm) -> dict[str, Any]:
    """Return bounds for the script in base units: {"slots": {name: {"min", "left", "most", "step",
    "words"}}, "sizes": {key: objection}, "images": {reference: objection}, "devices": {id of a card:
    words}}.
    """
    minimum = ResourceSlots(form.chosen_image.min_slots if form.chosen_image else {})
    slots = {
        name: {
            "min": max(minimum[name], MIN_SLOTS[name]),
            "left": room.most_free,
            "most": room.largest,
            "step": STEPS[name],
            "words": _room_words(name, minimum[name], room.most_free, room.largest),
        }
        for name, room in form.room.items()
        if name in STEPS
    }
    sizes = {size.key: form.objection_to(size.slots) for size in form.sizes}
    devices = {f"{card.group}/{card.key}": _free_words(card) for card in form.device_cards}
    return {"slots": slots, "sizes": sizes, "images": form.image_objections, "devices": devices}


def _room_words(name: str, minimum: int, most_free: int, largest: int) -> dict[str, str]:
    return {
        "min": _("{amount} needed by the environment").format(amount=format_amount(name, minimum))
        if minimum
        else "",
        "left": _("{amount} free on one machine now").format(amount=format_amount(name, most_free)),
        "most": _("{amount} on the largest machine").format(amount=format_amount(name, largest)),
    }


def folder_rows(form: LauncherForm) -> list[dict[str, Any]]:
    """Return folders with the user's choices: [{"pk", "name", "project", "inside", "place",
    "default_place", "is_chosen", "is_readonly"}].
    """
    chosen = {str(value) for value in form["folders"].value() or ()}
    readonly = {str(value) for value in form["readonly"].value() or ()}
    return [
        {
            "pk": str(folder.pk),
            "name": folder.name,
            "project": str(folder.project or ""),
            "inside": form.entered(f"{INSIDE_PREFIX}{folder.pk}"),
            "place": form.entered(f"{PLACE_PREFIX}{folder.pk}"),
            "default_place": f"{HOME}/{folder.name}",
            "is_chosen": str(folder.pk) in chosen,
            "is_readonly": str(folder.pk) in readonly,
        }
        for folder in form.mountable
    ]


def initial_from_session(actor: Actor, session: ComputeSession) -> dict[str, Any]:
    """Return the form's initial values for a copy of `session`, with a free name."""
    body = copy_request_body(actor, session) | {"callback_url": find_callback_url(actor, session)}
    return {**_initial_from_request(actor, parse_request(body)), "like": str(session.pk)}


def initial_from_template(actor: Actor, template: SessionTemplate) -> dict[str, Any]:
    """Return the form's initial values for a template."""
    name = suggest_name(actor, template_name_stem(template.name))
    request = parse_request({**request_body(actor, template), "name": name})
    return {**_initial_from_request(actor, request), "template": str(template.pk)}


def _initial_from_request(actor: Actor, request: SessionRequest) -> dict[str, Any]:
    """Return the form's initial values for a request.

    Omits folders that the actor cannot mount, and environment variables under impersonation,
    because they may hold secrets.
    """
    body = request.to_json()
    if actor.impersonator_id:
        body.pop("environment", None)
    amounts = {name: amount_input(name, amount) for name, amount in request.slots.items()}
    devices = {
        name: str(text) for name, text in request.resources.to_json().items() if name not in (*STEPS, "shm")
    }
    # Of several with one name the own one counts, as in a request.
    folders = sorted(own_folders(actor), key=lambda folder: folder.owner_id == actor.user_id)
    known = {folder.name: folder for folder in folders} | {str(folder.pk): folder for folder in folders}
    mounts = [(known[mount.name], mount) for mount in request.mounts if mount.name in known]
    return {
        **{name: value for name, value in body.items() if name in LauncherFields.base_fields},
        "elsewhere": request.may_run_elsewhere,
        "size": size_key(amounts[CPU], amounts[MEM]),
        **{name: amounts[name] for name in STEPS},
        **initial_device(devices, request.device_model),
        "shm": amount_input(MEM, request.shm_bytes),
        "folders": [str(folder.pk) for folder, _mount in mounts],
        "readonly": [str(folder.pk) for folder, mount in mounts if mount.readonly],
        **{
            f"{PLACE_PREFIX}{folder.pk}": mount.path
            for folder, mount in mounts
            if mount.path not in ("", f"{HOME}/{folder.name}")
        },
        **{f"{INSIDE_PREFIX}{folder.pk}": mount.subpath for folder, mount in mounts if mount.subpath},
    }


def summary(actor: Actor, form: LauncherForm) -> dict[str, Any]:
    """Return the form's request and its forecast for sessions_app/_summary.html: {"verdict":
    now|wait|no, …}.
    """
    request, forecast = None, None
    if form.is_valid():
        try:
            request = parse_request(form.raw_request())
            forecast = forecast_session(actor, request)
        except BerthError as error:
            form.add_refusal(error)
    return {
        "totals": slot_words(request.total_slots, request.cluster_size) if request else "",
        "typed": form.cleaned_data,
        "folder_count": len(form.cleaned_data.get("folders", ())),
        "meters": _group_meters(form),
        "lists": list_rows(form.scopes, (AllowList.REGISTRIES, AllowList.IMAGES)),
        "room": room_facts(form),
        "examples": request_examples(name_folders(request, form), settings.BERTH_URL) if request else (),
        **(_forecast_context(forecast) if forecast else {"verdict": "no", "problems": _problems(form)}),
    }


def _forecast_context(forecast: Forecast) -> dict[str, Any]:
    outlook = forecast.outlook
    entered = [str(outlook.sentence)]
    if outlook.position:
        entered.append(_("It would be number {position} in the queue.").format(position=outlook.position))
    if outlook.who_may_raise:
        entered.append(str(outlook.who_may_raise))
    if outlook.start_range and not outlook.starts_now:
        entered.append(outlook.start_range.words)
    return {
        "verdict": "now" if outlook.starts_now else "wait",
        "sentence": paragraph(entered),
        "other_groups": forecast.other_groups[:SHOWN_GROUPS],
        "nearest": None if outlook.starts_now else _largest_fitting(forecast),
        "live_sessions": forecast.live_sessions,
        "live_limit": forecast.live_limit,
        "budgets": budget_rows(forecast.budgets),
        "group": forecast.inputs.group.name,
    }


def _largest_fitting(forecast: Forecast) -> dict[str, str] | None:
    """Return the largest part of the request that fits now; None if that is below the minimum, or
    if devices are short.
    """
    asked, room = forecast.inputs.request.slots, forecast.outlook.best_room
    minimum = ResourceSlots(forecast.inputs.image.min_slots)
    offered = ResourceSlots(
        {name: min(amount, _round_down(name, room[name])) for name, amount in asked.items()}
    )
    needed = ResourceSlots({name: max(minimum[name], MIN_SLOTS[name]) for name in STEPS})
    if any(offered[name] < asked[name] for name in asked if name not in STEPS):
        return None
    if not needed.fits_in(offered) or offered == asked:
        return None
    amounts = {name: amount_input(name, offered[name]) for name in STEPS}
    return {**amounts, "words": format_slots({name: offered[name] for name in STEPS})}


def _round_down(name: str, amount: int) -> int:
    step = STEPS.get(name, MILLI)
    return amount // step * step


def _group_meters(form: LauncherForm) -> list[dict[str, Any]]:
    """Return the use of the resource group: [{"label", "slot", "used", "limit"}]."""
    return [
        {"label": slot_title(name), "slot": name, "used": room.occupied, "limit": room.capacity}
        for name, room in sorted(form.room.items(), key=lambda pair: (pair[0] not in STEPS, pair[0]))
    ]


def _problems(form: LauncherForm) -> list[dict[str, str]]:
    """Return the errors in page order: [{"id", "label", "text"}]."""
    found = []
    for name in (None, *form.fields):
        errors = form.non_field_errors() if name is None else form[name].errors
        label = "" if name is None else str(form[name].label)
        anchor = _ANCHORS.get(name or "", f"id_{name}")
        found += [{"id": anchor if name else "", "label": label, "text": str(text)} for text in errors]
    return found


def name_folders(request: SessionRequest, form: LauncherForm) -> SessionRequest:
    """Return the request with folders by name wherever the name is unique."""
    names = [folder.name for folder in form.mountable]
    by_id = {str(folder.pk): folder.name for folder in form.mountable if names.count(folder.name) == 1}
    mounts = [
        replace(mount, folder=mount.folder.replace(mount.name, by_id.get(mount.name, mount.name), 1))
        for mount in request.mounts
    ]
    return replace(request, mounts=mounts)
