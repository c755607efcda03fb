"""Resource presets: visibility, create, change, delete, and the ones offered for a project."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.models import Project
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, NotFound, PermissionDenied
from common.values.resources import CPU, MEM, split_part
from sessions_app.core.request import parse_request
from sessions_app.core.template_rules import Sharing, check_template_name
from sessions_app.models import ResourcePreset
from sessions_app.session_templates.sharing import (
    can_write,
    require_free_place,
    save_shared,
    scope_columns,
    visible_to,
)


def visible_presets(actor: Actor) -> QuerySet[ResourcePreset]:
    return ResourcePreset.objects.filter(visible_to(actor)).select_related("project", "domain")


def offered_presets(actor: Actor, project: Project | None) -> list[ResourcePreset]:
    """Return presets for a session in `project`, smallest first: the actor's own, and those shared
    with the project, its domain and everybody. One query.
    """
    domain_id = project.domain_id if project else actor.domain_id
    there = (
        Q(sharing__in=(Sharing.OWN, Sharing.EVERYBODY))
        | Q(domain_id=domain_id or 0)
        | Q(project_id=project.pk if project else 0)
    )
    return sorted(visible_presets(actor).filter(there), key=size_order)


def access_preset(actor: Actor, preset_id: int, *, locked: bool = False) -> ResourcePreset:
    """Return one visible preset, with its row locked if `locked`. Raises NotFound."""
    rows = visible_presets(actor)
    found = (rows.select_for_update(of=("self",)) if locked else rows).filter(pk=preset_id).first()
    if found is None:
        raise NotFound(_("There is no such preset among those that you may see."))
    return found


@transaction.atomic
def create_preset(
    *, actor: Actor, name: str, sharing: str, resources: object, place: str = ""
) -> ResourcePreset:
    """Create a preset. `resources` has the format of a session request; `place` names the project
    or domain (default: the own domain). Raises InvalidInput, NotFound, PermissionDenied, Conflict,
    LimitExceeded.
    """
    preset = ResourcePreset(
        name=_checked_name(name), **_slot_columns(resources), **scope_columns(actor, sharing, place)
    )
    _require_write(actor, preset)
    require_free_place(preset, _("There are {count} presets already, as many as there may be."))
    _save(actor, preset)
    audit_log.record(
        actor=actor, action="sessions.create_preset", target=preset, changes=_audit_values(preset)
    )
    return preset


@transaction.atomic
def change_preset(*, actor: Actor, preset_id: int, changes: Mapping[str, Any]) -> ResourcePreset:
    """Change name or resources of a preset; existing sessions are unaffected. Raises NotFound,
    PermissionDenied, InvalidInput, Conflict.
    """
    preset = access_preset(actor, preset_id, locked=True)
    _require_write(actor, preset)
    before = _audit_values(preset)
    if "name" in changes:
        preset.name = _checked_name(changes["name"])
    for column, value in (_slot_columns(changes["resources"]) if "resources" in changes else {}).items():
        setattr(preset, column, value)

    _save(actor, preset)
    changed = audit_log.changed(before, _audit_values(preset))
    audit_log.record(actor=actor, action="sessions.change_preset", target=preset, changes=changed)
    return preset


@transaction.atomic
def delete_preset(*, actor: Actor, preset_id: int) -> None:
    """Delete a preset; existing sessions are unaffected. Raises NotFound, PermissionDenied."""
    preset = access_preset(actor, preset_id)
    _require_write(actor, preset)
    audit_log.record(actor=actor, action="sessions.delete_preset", target=preset)
    preset.delete()


def _require_write(actor: Actor, preset: ResourcePreset) -> None:
    if not can_write(actor, preset):
        raise PermissionDenied(
            _("You may not create presets there."),
            hint=_("Ask an administrator of the project or domain."),
        )


def size_order(preset: ResourcePreset) -> tuple[Any, ...]:
    """Sort key: devices, then cores, then memory, then name."""
    amounts = preset.amounts
    devices = sum(
        1 if split_part(name)[1] else amount for name, amount in amounts.items() if name not in (CPU, MEM)
    )
    return devices, amounts[CPU], amounts[MEM], preset.name


def _slot_columns(resources: object) -> dict[str, Any]:
    """Validate resources like those of a session request, with the same errors and field names."""
    asked = {"name": "preset", "project": "any", "image": "any", "resources": resources}
    request = parse_request(asked)
    says_shm = isinstance(resources, Mapping) and resources.get("shm") is not None
    return {"slots": dict(request.slots), "shm_bytes": request.shm_bytes if says_shm else None}


def _checked_name(name: object) -> str:
    try:
        return check_template_name(name)
    except ValueError as error:
        raise InvalidInput(str(error), fields={"name": [str(error)]}) from error


def _audit_values(preset: ResourcePreset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "sharing": preset.sharing,
        "slots": preset.slots,
        "shm_bytes": preset.shm_bytes,
    }


def _save(actor: Actor, preset: ResourcePreset) -> None:
    sentence = _("There is a preset called “{name}” there already.")
    save_shared(actor, preset, "preset_name_in_place", sentence, _("Used by a preset there already."))
