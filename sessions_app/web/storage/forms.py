"""Forms of storage hosts: how machines reach them, settings of each kind, rights."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from vfolders.core.host_rights import ALL_RIGHTS, TITLES, parse_rights, right_names
from vfolders.core.mounts import VOLUME_TYPES
from vfolders.hosts.service import Grant
from vfolders.models import StorageHost
from vfolders.storage.kinds import MOST_CHARACTERS, HostKind, Input, Setting

TYPED = {"spellcheck": "false", "autocomplete": "off"}


class ReachForm(forms.Form):
    """Form of how machines reach a host; `vfolders.core.mounts` checks the values."""

    reach = forms.ChoiceField(choices=StorageHost.Reach.choices, label=gettext_lazy("Machines reach it by"))
    agent_path = forms.CharField(
        required=False,
        max_length=500,
        label=gettext_lazy("Path on the machines"),
        help_text=gettext_lazy(
            "For a shared path: where the host is mounted on machines other than the portal's."
        ),
        widget=forms.TextInput(attrs=TYPED),
    )
    type = forms.ChoiceField(
        required=False,
        choices=[("", "—"), *((name, name) for name in VOLUME_TYPES)],
        label=gettext_lazy("File system"),
        help_text=gettext_lazy("For a Docker volume: the option “type” of the driver “local”."),
    )
    device = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Share"),
        help_text=gettext_lazy("Like :/export/folders (NFS) or //server/share/folders (SMB)."),
        widget=forms.TextInput(attrs=TYPED),
    )
    o = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Mount options"),
        help_text=gettext_lazy(
            "Like addr=10.0.0.5,nfsvers=4.2 or addr=10.0.0.5,username=berth,password={secret}."
        ),
        widget=forms.TextInput(attrs=TYPED),
    )
    secret = forms.CharField(
        required=False,
        max_length=1000,
        label=gettext_lazy("Password"),
        help_text=gettext_lazy("Replaces {secret} in the options. Empty: the present one stays."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def changes(self) -> dict[str, Any]:
        values = self.cleaned_data
        secret = {"secret": values["secret"]} if values["secret"] else {}
        options = {name: values[name] for name in ("type", "o", "device")}
        return {
            "reach": values["reach"],
            "agent_path": values["agent_path"],
            "volume_options": options,
            **secret,
        }


def setting_field(setting: Setting) -> forms.Field:
    """Return the field of a declared setting; the kind checks its value. A secret is never required,
    because the present one stays if it is empty.
    """
    label, text = setting.label, setting.help
    if not text and setting.example:
        text = gettext_lazy("Like %(example)s.") % {"example": setting.example}
    is_secret = setting.input is Input.SECRET
    required = setting.is_required and not setting.default and not is_secret
    if setting.choices:
        choices = [(each, each) for each in setting.choices]
        return forms.ChoiceField(
            required=required, label=label, help_text=text, choices=choices, initial=setting.default
        )
    widget: forms.Widget = forms.TextInput(attrs=TYPED)
    if is_secret:
        widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
        text = text or gettext_lazy("Kept encrypted. Empty: the present one stays.")
    elif setting.input is Input.LINES:
        widget = forms.Textarea(attrs={**TYPED, "rows": "4"})
    elif setting.input is Input.NUMBER:
        widget = forms.TextInput(attrs={**TYPED, "inputmode": "numeric"})
    return forms.CharField(
        required=required,
        label=label,
        help_text=text,
        widget=widget,
        initial=setting.default,
        max_length=MOST_CHARACTERS,
    )


class SettingsForm(forms.Form):
    """Form of the settings that a kind of host declares."""

    def __init__(self, kind: HostKind, data: Any = None, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self.kind = kind
        self.fields |= {each.name: setting_field(each) for each in kind.settings}

    def settings(self) -> dict[str, str]:
        return {each.name: self.cleaned_data[each.name] for each in self.kind.settings}


class NewHostForm(SettingsForm):
    name = forms.CharField(
        max_length=64,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("People choose the host by it; it stays."),
        widget=forms.TextInput(attrs=TYPED),
    )


class HostForm(SettingsForm):
    is_active = forms.BooleanField(required=False, label=gettext_lazy("New folders may be created there"))
    is_default = forms.BooleanField(required=False, label=gettext_lazy("The default host of new folders"))


class RestrictionForm(forms.Form):
    is_restricted = forms.BooleanField(
        required=False,
        label=gettext_lazy("Only as granted here"),
        help_text=gettext_lazy("Otherwise everybody has all rights. Administrators always have them."),
    )


class GrantForm(forms.Form):
    holder = forms.ChoiceField(
        label=gettext_lazy("For"),
        choices=[
            ("domain", gettext_lazy("Domain")),
            ("project", gettext_lazy("Project")),
            ("policy", gettext_lazy("Policy of the user")),
        ],
    )
    name = forms.CharField(
        required=False, max_length=130, label=gettext_lazy("Name"), widget=forms.TextInput(attrs=TYPED)
    )
    rights = forms.MultipleChoiceField(
        required=False,
        label=gettext_lazy("Rights"),
        choices=[
            (name, gettext_lazy(TITLES[right]))
            for name, right in zip(right_names(ALL_RIGHTS), TITLES, strict=True)
        ],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )

    def grant(self) -> Grant:
        values = self.cleaned_data
        return Grant(values["holder"], values["name"].strip(), parse_rights(values["rights"]))


GrantFormSet = forms.formset_factory(GrantForm, extra=3, max_num=200)
