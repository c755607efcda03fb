"""Forms of the Data pages."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.pages.form_fields import UncheckedChoice, UncheckedField
from vfolders.core.paths import MAX_FOLDER_NAME_LENGTH, MAX_NAME_BYTES

_OWN = "-"  # not a valid project name


class FolderForm(forms.Form):
    name = UncheckedField(
        max_length=MAX_FOLDER_NAME_LENGTH,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(
            attrs={"placeholder": "datasets", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    project = UncheckedChoice(label=gettext_lazy("Owner"))
    host = UncheckedChoice(required=False, label=gettext_lazy("Storage host"))

    def __init__(self, *arguments: Any, projects: list[str], hosts: list[str], **options: Any) -> None:
        """`projects` are names of projects in which the user may create shared folders, `hosts` the
        available storage hosts; with fewer than two there is no choice of host.
        """
        super().__init__(*arguments, **options)
        shared = [(name, _("Everybody’s in {project}").format(project=name)) for name in projects]
        field = self.fields["project"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(_OWN, _("My own")), *shared]
        host = self.fields["host"]
        assert isinstance(host, forms.ChoiceField)
        host.choices = [("", _("Default")), *((name, name) for name in hosts)]
        if len(hosts) < 2:
            del self.fields["host"]

    def clean_project(self) -> str:
        """Return the project's name, or "" for a personal folder."""
        name: str = self.cleaned_data["project"]
        return "" if name == _OWN else name


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
