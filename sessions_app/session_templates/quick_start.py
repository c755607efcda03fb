"""Start sessions without a form: the default session of an image, and a copy of an earlier session."""

import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.utils.translation import gettext as _

from accounts.core.allow_lists import AllowList
from accounts.core.limits import Level, Scope
from accounts.selectors import usable_projects
from common.actors import Actor
from common.errors import NotFound
from common.values.resources import CPU, MEM, MILLI, ResourceSlots, format_version, is_memory
from images.models import ContainerImage
from images.selectors import access_image, newest_image
from sessions_app.admission.insert import REQUEST_COLUMNS
from sessions_app.admission.names import suggest_name
from sessions_app.admission.service import check_session, enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.template_rules import Sharing
from sessions_app.models import ComputeSession, ResourcePreset
from sessions_app.selectors import Action, access_session
from sessions_app.session_templates.presets import offered_presets
from vfolders.selectors import host_refusals, own_folders, usual_storage_host
from vfolders.services import create_folder

QUICK_SLOTS = ResourceSlots({CPU: 1000, MEM: 2 * 2**30})
OWN_FOLDER = "my-files"


def quick_start_session(*, actor: Actor, image_reference: str) -> ComputeSession:
    """Start a default session of the image in the actor's first project, with the folder "my-files"
    mounted. Creates the folder on first use; later sessions mount it again.
    """
    image = access_image(actor, image_reference)
    raw = quick_request(actor, image, name=suggest_name(actor, image_name_stem(image)))
    own = own_folders(actor).filter(owner_id=actor.user_id, name=OWN_FOLDER).first()
    if own is None:  # check first: a refused session must not leave a new folder
        check_session(actor, [parse_request(raw)])
    folder = own or create_folder(actor=actor, name=OWN_FOLDER)
    return enqueue_session(
        actor=actor, request=parse_request({**raw, "mounts": [{"folder": str(folder.pk)}]})
    )


def own_folder_refusal(actor: Actor, scopes: Sequence[Scope]) -> str:
    """Return why "my-files" cannot be created: the allow list of storage hosts that excludes it; ""
    if it can be created or exists. No query if no scope restricts storage hosts.
    """
    theirs = [scope for scope in scopes if scope.level is not Level.PROJECT]
    if not any(AllowList.STORAGE_HOSTS.value in scope.allowed for scope in theirs):
        return ""
    if own_folders(actor).filter(owner_id=actor.user_id, name=OWN_FOLDER).exists():
        return ""
    try:
        hit = host_refusals(theirs, usual_storage_host(theirs))
    except NotFound as error:
        return error.message
    return hit[0].reason if hit else ""


def start_session_again(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Start a copy of one of the actor's earlier sessions, with the newest build if its image was
    replaced. Raises NotFound, PermissionDenied, and the errors of `enqueue_session`.
    """
    earlier = access_session(actor, session_id, Action.OPEN_APP)
    return enqueue_session(actor=actor, request=parse_request(copy_request_body(actor, earlier)))


def copy_request_body(actor: Actor, session: ComputeSession) -> dict[str, object]:
    """Return a request body for a copy of `session`, with a free name and the newest build of its image."""
    body = session_request_body(session, name=suggest_name(actor, name_stem(session.name)))
    if not session.image.is_enabled and (successor := newest_image(actor, session.image_reference)):
        body["image"] = successor.reference
    return body


def image_name_stem(image: ContainerImage) -> str:
    """Return a short base name for sessions of the image: "python" for "berth/python:1"."""
    last = image.reference.rpartition("/")[2].partition(":")[0].partition("@")[0]
    return re.sub(r"[^A-Za-z0-9]+", "-", last).strip("-")[:40] or "session"


def name_stem(name: str) -> str:
    return re.sub(r"-\d+$", "", name)[:56]


def quick_request(actor: Actor, image: ContainerImage, *, name: str) -> dict[str, object]:
    """Return the request body of a default session in the actor's first project. Raises NotFound if
    the actor has no project.
    """
    project = usable_projects(actor).first()
    if project is None:
        raise NotFound(
            _("You are in no project yet."), hint=_("Ask an administrator to add you to a project.")
        )
    return {
        "name": name,
        "project": project.name,
        "image": image.reference,
        "type": "interactive",
        "resources": resources_json(quick_slots(image, offered_presets(actor, project))),
    }


def quick_slots(image: ContainerImage, presets: Sequence[ResourcePreset] = ()) -> ResourceSlots:
    """Return the default size, raised to the image's minimum; or the first shared preset (smallest
    first) that covers the minimum and does not exceed the default. Thus nobody gets more than the
    default by accident, nor is refused where the default starts. Personal presets are skipped.
    """
    minimum = ResourceSlots(image.min_slots)
    usual = ResourceSlots({slot: max(minimum[slot], QUICK_SLOTS[slot]) for slot in {*minimum, *QUICK_SLOTS}})
    amounts = (preset.amounts for preset in presets if preset.sharing != Sharing.OWN)
    return next((each for each in amounts if minimum.fits_in(each) and each.fits_in(usual)), usual)


def session_request_body(session: ComputeSession, *, name: str) -> dict[str, object]:
    """Return a request body equal to that of `session`, without folders that were deleted."""
    copied = {column: getattr(session, column) for column in REQUEST_COLUMNS if column != "start_at"}
    mounts = [mount for mount in session.mounts.all() if mount.folder_id and not mount.is_automatic]
    part = session.device_part
    slots = part.put_back(session.slots) if part else session.slots
    return {
        **copied,
        "name": name,
        "project": session.project.name,
        "image": session.image_reference,
        "resource_group": session.resource_group.name,
        "resources": {**resources_json(slots), "shm": session.shm_bytes},
        # That of a part by memory was the smallest device that it could get.
        "device_mem": 0 if part and part.mem_bytes else session.device_mem_bytes,
        "device_api": format_version(session.device_api_version) if session.device_api_version else "",
        "mounts": [
            {
                "folder": f"{mount.folder_id}/{mount.subpath}".removesuffix("/"),
                "path": mount.path,
                "readonly": mount.is_readonly,
            }
            for mount in mounts
        ],
        "cluster_size": session.kernel_count,
        "cluster_mode": session.gang if session.kernel_count > 1 else "",
        "roles": session.cluster_roles,
        "callback_url": session.callback.url if hasattr(session, "callback") else "",
        "designated_agent": session.designated_agent.name if session.designated_agent else "",
        # A copy belongs to no array, so without a placement group the rule has nothing to apply to.
        "placement_rule": session.placement_rule if session.placement_group else "",
    }


def resources_json(slots: Mapping[str, int]) -> dict[str, object]:
    """Convert base units to the units of the REST body (cores and devices, memory in bytes)."""
    return {name: amount if is_memory(name) else amount / MILLI for name, amount in slots.items()}
