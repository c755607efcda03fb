"""Forms of the Data pages."""

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.pages.form_fields import UncheckedChoice, UncheckedField
from vfolders.core.modes import FolderMode
from vfolders.core.paths import MAX_FOLDER_NAME_LENGTH, MAX_NAME_BYTES
from vfolders.web.rows import MODE_LABELS

OWN = "-"  # not a valid project name


class FolderForm(forms.Form):
    name = UncheckedField(
        max_length=MAX_FOLDER_NAME_LENGTH,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(
            attrs={"placeholder": "datasets", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    mode = UncheckedChoice(
        required=False,
        label=gettext_lazy("For"),
        help_text=gettext_lazy(
            "An auto-mount folder has a name like .cache and is in all your sessions. The launcher offers models read-only."
        ),
    )
    project = UncheckedChoice(label=gettext_lazy("Owner"))
    host = UncheckedChoice(required=False, label=gettext_lazy("Storage host"))

    def __init__(self, *arguments: Any, projects: list[str], hosts: Sequence[str], **options: Any) -> None:
        """`projects` are names of projects in which the user may create shared folders, `hosts` the
        available storage hosts; with fewer than two there is no choice of host.
        """
        super().__init__(*arguments, **options)
        mode = self.fields["mode"]
        assert isinstance(mode, forms.ChoiceField)
        mode.choices = [(each.value, _(MODE_LABELS[each])) for each in FolderMode]
        _offer_places(self, projects, hosts)

    def clean_mode(self) -> FolderMode:
        try:
            return FolderMode(self.cleaned_data["mode"] or FolderMode.GENERAL)
        except ValueError as error:
            raise forms.ValidationError(_("Choose one of the list.")) from error

    def clean_project(self) -> str:
        """Return the project's name, or "" for a personal folder."""
        name: str = self.cleaned_data["project"]
        return "" if name == OWN else name


def _offer_places(form: forms.Form, projects: list[str], hosts: Sequence[str]) -> None:
    """Offer owners and storage hosts; with fewer than two hosts there is no choice."""
    shared = [(name, _("Everybody’s in {project}").format(project=name)) for name in projects]
    field = form.fields["project"]
    assert isinstance(field, forms.ChoiceField)
    field.choices = [(OWN, _("My own")), *shared]
    host = form.fields["host"]
    assert isinstance(host, forms.ChoiceField)
    host.choices = [("", _("Default")), *((name, name) for name in hosts)]
    if len(hosts) < 2:
        del form.fields["host"]


class RenameForm(forms.Form):
    name = UncheckedField(
        max_length=MAX_FOLDER_NAME_LENGTH,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class ModeForm(forms.Form):
    mode = UncheckedChoice(label=gettext_lazy("For"))

    def __init__(self, *arguments: Any, modes: Iterable[FolderMode], **options: Any) -> None:
        super().__init__(*arguments, **options)
        field = self.fields["mode"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(each.value, _(MODE_LABELS[each])) for each in modes]


class CloneForm(RenameForm):
    project = UncheckedChoice(label=gettext_lazy("Owner"))
    host = UncheckedChoice(required=False, label=gettext_lazy("Storage host"))

    def __init__(self, *arguments: Any, projects: list[str], hosts: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        _offer_places(self, projects, hosts)


class DirectoryForm(forms.Form):
    name = forms.CharField(
        max_length=MAX_NAME_BYTES,
        strip=False,
        label=gettext_lazy("New directory"),
        widget=forms.TextInput(attrs={"placeholder": "images", "autocomplete": "off", "spellcheck": "false"}),
    )


class ManyFilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class UploadForm(forms.Form):
    chosen = forms.FileField(label=gettext_lazy("Files"), widget=ManyFilesInput(attrs={"multiple": True}))
