"""Form of the launcher. Shapes input only; sessions_app.core.request validates it, as for REST."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from accounts.core.limits import Limit, unsatisfiable_limits
from accounts.limits import read_scopes, scope_ids
from accounts.models import Project
from accounts.selectors import usable_projects
from agents.models import ResourceGroup
from agents.selectors import SlotCapacity, slot_capacities_by_group, usable_resource_groups, with_agent_counts
from common.actors import Actor
from common.errors import BerthError, LimitExceeded
from common.pages.form_fields import UncheckedField
from common.values.resources import CPU, MEM, ResourceSlots
from images.models import ContainerImage
from images.selectors import refusal_summaries, visible_images
from sessions_app.core.device_request import least_amounts
from sessions_app.core.queue_options import to_zoned_instant
from sessions_app.core.request import BATCH_FIELDS, SessionRequest
from sessions_app.core.sizes import BY_KEY, CUSTOM, SIZES, Size, preset_size, size_key
from sessions_app.core.template_rules import Sharing
from sessions_app.limits.group_rules import group_label, max_slots_per_session
from sessions_app.limits.policy_limits import slot_limits
from sessions_app.models import SessionType
from sessions_app.selectors import own_sessions
from sessions_app.session_templates.presets import offered_presets
from sessions_app.session_templates.quick_start import OWN_FOLDER
from sessions_app.web.launcher_devices import (
    CORES_PART,
    MEM_PART,
    device_cards,
    device_requirements,
    initial_device,
    requested_devices,
)
from sessions_app.web.launcher_fields import LauncherFields
from vfolders.core.modes import FolderMode
from vfolders.selectors import is_automatic_for, own_folders

MOST_NAMES = 100
DEVICE_PREFIX, PLACE_PREFIX, INSIDE_PREFIX = "device_", "at_", "in_"


class LauncherForm(LauncherFields):
    """Form with the actor's choices, convertible to a session request.

    9 queries, all in the constructor; 12 with accelerators. `image_objections` maps image
    references to the reason why they are not allowed in the chosen project.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, *, actor: Actor, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.images = list(visible_images(actor))
        self._projects = list(usable_projects(actor))
        self.scopes = read_scopes(scope_ids(actor, self.chosen_project).keys())
        self.image_objections = refusal_summaries(self.scopes, self.images)
        usable = with_agent_counts(usable_resource_groups(actor, self.chosen_project))
        self.groups = list(usable.order_by("-is_default", "name"))
        own = list(own_folders(actor))
        self.automatic = [each for each in own if is_automatic_for(actor, each)]
        self.mountable = [each for each in own if each not in self.automatic]
        # one name for an array instead of one for each element
        live = own_sessions(actor).live().values_list(Coalesce("array__name", "name"), flat=True)
        self.live_names = list(live.order_by(Coalesce("array__name", "name")).distinct()[:MOST_NAMES])
        self._rooms = slot_capacities_by_group(
            actor, architecture=self.chosen_image.architecture if self.chosen_image else ""
        )
        folder_choices = [(str(folder.pk), folder.name) for folder in self.mountable]
        self._choose("project", [(project.name, str(project)) for project in self._projects])
        self._choose("image", [(image.reference, str(image)) for image in self.images])
        self.fields["image"].widget.closed = self.image_objections  # type: ignore[attr-defined]
        self._choose("resource_group", [(group.name, group_label(group)) for group in self.groups])
        self.sizes = self._offered_sizes(actor)
        by_key = {**BY_KEY, **{size.key: size for size in self.sizes}}
        self._size_of = by_key.get
        self._choose("size", [*((key, size.title) for key, size in by_key.items()), (CUSTOM, _("Custom"))])
        self._choose("folders", folder_choices)
        self._choose("readonly", folder_choices)
        self.device_names = sorted({name for room in self._rooms.values() for name in room} - {CPU, MEM})
        for name in self.device_names:
            self.fields[DEVICE_PREFIX + name] = UncheckedField(required=False, max_length=12, label=name)
        self.device_cards = device_cards(self.groups, self._rooms)
        if not self.is_bound:
            if not self.initial.get("size"):
                self.initial["size"] = self._first_size()
            if not self.initial.get("device"):
                self.initial.update(self._initial_device())
            if "readonly" not in self.initial:
                models = [folder for folder in self.mountable if folder.mode == FolderMode.MODEL]
                self.initial["readonly"] = [str(folder.pk) for folder in models]

    def _initial_device(self) -> dict[str, str]:
        """Return the choice of accelerators for a URL that names amounts, like ?device_cuda=2."""
        amounts = {name: self.entered(DEVICE_PREFIX + name) for name in self.device_names}
        asked = {name: text for name, text in amounts.items() if text not in ("", "0")}
        return initial_device(asked, self.entered("device_model"))

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        self.fields[name].choices = choices  # type: ignore[attr-defined]

    def _offered_sizes(self, actor: Actor) -> list[Size]:
        """Return the sizes on offer: shared presets, default sizes, then the actor's own presets.

        Presets for everybody replace the default sizes, except for one that is selected. Own
        presets come last because the first size is the default.
        """
        presets = offered_presets(actor, self.chosen_project)
        usual: Sequence[Size] = SIZES
        if any(preset.sharing == Sharing.EVERYBODY for preset in presets):
            usual = tuple(size for size in SIZES if size.key == self.entered("size"))
        made: dict[bool, list[Size]] = {True: [], False: []}
        for each in presets:
            size = preset_size(each.pk, each.name, each.amounts, each.shm_bytes)
            made[each.sharing == Sharing.OWN].append(size)
        return [*made[False], *usual, *made[True]]

    def _first_size(self) -> str:
        """Return the size for a URL without one: its amounts, or the first size that fits."""
        if "cpu" in self.initial or "mem" in self.initial:
            amounts = (str(self.initial.get(name, self.fields[name].initial)) for name in ("cpu", "mem"))
            return size_key(*amounts)
        return next((size.key for size in self.sizes if not self.objection_to(size.slots)), CUSTOM)

    @property
    def has_project(self) -> bool:
        return bool(self.fields["project"].choices)  # type: ignore[attr-defined]

    @property
    def chosen_image(self) -> ContainerImage | None:
        """Image that is selected; by default the first one that is allowed."""
        chosen = self.entered("image")
        if chosen:
            return next((image for image in self.images if image.reference == chosen), None)
        usable = (image for image in self.images if image.reference not in self.image_objections)
        return next(usable, self.images[0] if self.images else None)

    @property
    def chosen_project(self) -> Project | None:
        """Project that is selected; by default, or if unknown, the first one."""
        named = (project for project in self._projects if project.name == self.entered("project"))
        return next(named, self._projects[0] if self._projects else None)

    @property
    def chosen_group(self) -> ResourceGroup | None:
        """Resource group that is selected; by default the first one."""
        chosen = self.entered("resource_group")
        return next((group for group in self.groups if group.name == chosen or not chosen), None)

    @property
    def room(self) -> dict[str, SlotCapacity]:
        """Capacity by slot in the chosen resource group, counting agents that can run the chosen image."""
        group = self.chosen_group
        return self._rooms.get(group.pk, {}) if group else {}

    def entered(self, name: str) -> str:
        """Return the submitted or initial value of a control, which need not be a field of the form."""
        return str((self.data if self.is_bound else self.initial).get(name) or "")

    def objection_to(self, slots: Mapping[str, int]) -> str:
        """Return why a size is not available with this image and group; "" if it is."""
        minimum = self.chosen_image.min_slots if self.chosen_image else {}
        if any(slots.get(name, 0) < minimum.get(name, 0) for name in (CPU, MEM)):
            return _("Too small for this environment")
        room = self.room
        if not room:
            return _("No machine")
        group = self.chosen_group
        slots = least_amounts(ResourceSlots(slots), [name for name in room if name not in (CPU, MEM)])
        if any(amount > (room[name].largest if name in room else 0) for name, amount in slots.items()):
            sentence = _("No machine of “{group}” is that large")
            return sentence.format(group=group.name if group else "")
        most_of = (
            max_slots_per_session(group, self.entered("type") or SessionType.INTERACTIVE) if group else {}
        )
        if any(slots.get(name, 0) > most for name, most in most_of.items()):
            return _("More than this resource group gives")
        if unsatisfiable_limits(self.scopes, slot_limits(Limit.SLOTS, ResourceSlots(slots))):
            return _("More than your limits allow")
        return ""

    def preselect_own_folder(self, actor: Actor) -> None:
        """Preselect the folder "my-files", as quick start does: files outside folders are deleted
        at the end.
        """
        own = (each for each in self.mountable if each.owner_id == actor.user_id and each.name == OWN_FOLDER)
        self.initial["folders"] = [str(folder.pk) for folder in own]

    def clean_command(self) -> str:
        """Remove the carriage returns that browsers send: a shell would take them as part of the command."""
        typed: str = self.cleaned_data["command"]
        return typed.replace("\r\n", "\n")

    def resources(self) -> dict[str, str]:
        """Return the resources to request: CPU and memory of the chosen size, else as entered.
        Devices and shared memory of a preset apply unless others were chosen; "0" removes a device.
        """
        typed = self.cleaned_data
        size = self._size_of(typed.get("size", ""))
        amounts = {"cpu": typed["cpu"], "mem": typed["mem"]}
        if size:
            amounts = {"cpu": size.cpu, "mem": size.mem, **size.devices}
        for name in self.device_names:
            if text := typed[DEVICE_PREFIX + name].strip():
                amounts[name] = text
        if typed["device"] or typed["device_count"].strip() == "0":
            cpu_mem = {name: amounts[name] for name in (CPU, MEM)}
            amounts = {**cpu_mem, **requested_devices(typed)}
        amounts = {name: text for name, text in amounts.items() if name in (CPU, MEM) or text != "0"}
        shm: str = typed.get("shm") or ""
        is_untouched = shm in ("", self.fields["shm"].initial)
        shm = size.shm if size and size.shm and is_untouched else shm
        return {**amounts, "shm": shm} if shm else amounts

    def raw_request(self) -> dict[str, object]:
        """Return the input as the body of a REST request."""
        typed = self.cleaned_data
        body = {name: typed[name] for name in SessionRequest.fields() if name in typed}
        body = {name: value.strip() if isinstance(value, str) else value for name, value in body.items()}
        if typed["type"] != SessionType.BATCH:
            body = {name: value for name, value in body.items() if name not in BATCH_FIELDS}
        if body["roles"]:
            del body["cluster_size"]  # the roles say it
        if "device" in self.data:
            body |= device_requirements(typed)
        return body | {
            "resources": self.resources(),
            "mounts": self._mounts(),
            "start_at": to_zoned_instant(typed["start_at"], typed["time_zone"]),
            "may_run_elsewhere": bool(body["designated_agent"]) and typed["elsewhere"],
            "dependencies": [
                {"session": name.strip(), "when": typed["after_when"]}
                for name in typed["after"].split(",")
                if name.strip()
            ],
        }

    def _mounts(self) -> list[dict[str, object]]:
        readonly = set(self.cleaned_data["readonly"])
        return [
            {
                "folder": f"{folder}/{self.entered(INSIDE_PREFIX + folder).strip('/')}".removesuffix("/"),
                "path": self.entered(PLACE_PREFIX + folder).strip(),
                "readonly": folder in readonly,
            }
            for folder in self.cleaned_data["folders"]
        ]

    def add_refusal(self, error: BerthError) -> None:
        """Show an error at the fields it names; show what concerns no field above the form."""
        for name, messages in error.fields.items():
            for text in messages:
                self.add_error(self._field_for(name), text)
        if not error.fields:
            self.add_error(None, f"{error.message} {error.hint}")
            return
        told = {text for messages in error.fields.values() for text in messages}
        for sentence in error.sentences if isinstance(error, LimitExceeded) else ():
            if sentence not in told:
                self.add_error(None, sentence)

    def _device_field_for(self, name: str, slot: str) -> str:
        """Return the field of the chosen accelerator for an error of the REST field `name`."""
        if name == "device_model":
            return "device"
        return "device_count" if slot == self.cleaned_data["device"].partition(":")[0] else ""

    def _field_for(self, name: str) -> str | None:
        """Return the form field for an error of the REST field `name`."""
        slot = name.removeprefix("resources.")
        if name.startswith("dependencies"):
            return "after_when" if name.endswith(".when") else "after"
        if slot.endswith((MEM_PART, CORES_PART)):
            return "part_mem" if slot.endswith(MEM_PART) else "part_cores"
        if self.cleaned_data.get("device") and (own_device := self._device_field_for(name, slot)):
            return own_device
        own = name.partition(".")[0] if name.startswith("roles") else slot
        own = "folders" if name.startswith("mounts") else "cpu" if name == "resources" else own
        if own in ("cpu", "mem") and self._size_of(self.cleaned_data.get("size", "")):
            own = "size"  # the CPU and memory fields are hidden then
        own = DEVICE_PREFIX + own if own in self.device_names else own
        return own if own in self.fields else None
