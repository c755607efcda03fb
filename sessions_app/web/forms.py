"""The launcher's form. It only shapes what people typed; sessions_app.requests checks it, as for REST."""

from collections.abc import Mapping
from typing import Any

from django import forms

from accounts.selectors import usable_projects
from agents.selectors import visible_resource_groups
from common.actors import Actor
from common.forms import TypedChoice, TypedChoices, TypedField
from common.texts import quoted
from images.selectors import visible_images
from sessions_app.models import SessionType
from sessions_app.shortcuts import OWN_FOLDER
from vfolders.selectors import own_folders

TYPE_WORDS = {
    SessionType.INTERACTIVE: "Notebook and terminal, until you stop it.",
    SessionType.BATCH: "One command; ends when that has finished.",
}


class LauncherForm(forms.Form):
    """Fields carry the names of the REST body, so that refusals find their place."""

    type = TypedChoice(choices=SessionType.choices, initial="interactive", required=False)
    name = TypedField(max_length=64, help_text="Letters, digits, dots, dashes and underscores.")
    project = TypedChoice()
    image = TypedChoice(label="Environment")
    resource_group = TypedChoice(required=False, label="Machines")
    cpu = TypedField(initial="1", max_length=12, label="CPU cores")
    mem = TypedField(initial="2g", max_length=12, label="Memory", help_text="Like 512m or 4g.")
    shm = TypedField(initial="64m", max_length=12, label="Shared memory", required=False)
    folders = TypedChoices(required=False, widget=forms.CheckboxSelectMultiple)
    readonly = TypedChoices(required=False, widget=forms.CheckboxSelectMultiple)
    command = TypedField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text="Goes to a shell in /home/work; its output becomes the log.",
    )
    timeout_s = TypedField(
        required=False,
        label="Time limit in seconds",
        widget=forms.NumberInput(attrs={"min": "1"}),
        help_text="It is stopped after this time.",
    )
    environment = TypedField(
        required=False,
        label="Environment variables",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="One NAME=value a line.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, actor: Actor, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.images = list(visible_images(actor))
        self.mountable = list(own_folders(actor))
        folder_choices = [(str(folder.pk), folder.name) for folder in self.mountable]
        self._choose("project", [(project.name, str(project)) for project in usable_projects(actor)])
        self._choose("image", [(image.reference, str(image)) for image in self.images])
        self._choose("resource_group", [(group.name, group.name) for group in visible_resource_groups(actor)])
        self._choose("folders", folder_choices)
        self._choose("readonly", folder_choices)

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        self.fields[name].choices = choices  # type: ignore[attr-defined]

    @property
    def has_project(self) -> bool:
        return bool(self.fields["project"].choices)  # type: ignore[attr-defined]

    def choose_own_folder(self, actor: Actor) -> None:
        """Begin with the folder that quick starts mount too: files outside of folders are gone at the end."""
        own = (each for each in self.mountable if each.owner_id == actor.user_id and each.name == OWN_FOLDER)
        self.initial["folders"] = [str(folder.pk) for folder in own]

    def type_cards(self) -> list[dict[str, Any]]:
        """The types as cards to choose from: [{"value", "label", "words", "is_chosen"}]."""
        chosen = self["type"].value() or SessionType.INTERACTIVE.value
        return [
            {"value": kind.value, "label": kind.label, "words": words, "is_chosen": kind.value == chosen}
            for kind, words in TYPE_WORDS.items()
        ]

    def folder_rows(self) -> list[dict[str, Any]]:
        """Folders with what was chosen: [{"pk", "name", "project", "is_chosen", "is_readonly"}]."""
        chosen = {str(value) for value in self["folders"].value() or ()}
        readonly = {str(value) for value in self["readonly"].value() or ()}
        return [
            {
                "pk": str(folder.pk),
                "name": folder.name,
                "project": str(folder.project or ""),
                "is_chosen": str(folder.pk) in chosen,
                "is_readonly": str(folder.pk) in readonly,
            }
            for folder in self.mountable
        ]

    def clean_command(self) -> str:
        """Browsers send lines with a carriage return, which a shell would take for a part of the command."""
        typed: str = self.cleaned_data["command"]
        return typed.replace("\r\n", "\n")

    def clean_environment(self) -> dict[str, str]:
        """Variables of NAME=value lines."""
        pairs = {}
        for line in filter(str.strip, self.cleaned_data["environment"].splitlines()):
            name, equals, value = line.partition("=")
            if not equals:
                raise forms.ValidationError(f"{quoted(line)} has no “=”. Write NAME=value.")
            pairs[name.strip()] = value
        return pairs

    def raw_request(self) -> dict[str, object]:
        """The body that REST would get for what was typed."""
        typed = self.cleaned_data
        resources = {"cpu": typed["cpu"], "mem": typed["mem"]}
        if typed.get("shm"):
            resources["shm"] = typed["shm"]
        readonly = set(typed["readonly"])
        is_batch = typed["type"] == SessionType.BATCH
        return {
            "name": typed["name"].strip(),
            "project": typed["project"],
            "image": typed["image"],
            "resource_group": typed["resource_group"],
            "type": typed["type"],
            "resources": resources,
            "mounts": [{"folder": folder, "readonly": folder in readonly} for folder in typed["folders"]],
            "command": typed["command"] if is_batch else "",
            "timeout_s": typed["timeout_s"] if is_batch else None,
            "environment": typed["environment"],
        }

    def add_refusal(self, fields: Mapping[str, list[str]], message: str) -> None:
        """Mark a refusal at the fields it names, or on top of the form."""
        for name, messages in fields.items():
            own = {"resources": "cpu", "mounts": "folders"}.get(
                name, "folders" if name.startswith("mounts.") else name.removeprefix("resources.")
            )
            for text in messages:
                self.add_error(own if own in self.fields else None, text)
        if not fields:
            self.add_error(None, message)
