"""Forms of the administration pages of users, projects and domains. Errors of services are shown at
their fields.
"""

from collections.abc import Sequence

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.core.roles import PROJECT_ROLE_TITLES, ROLE_TITLES, ProjectRole, Role
from accounts.core.sign_in_requirements import SecondFactor
from accounts.core.sign_up import SIGN_UP_TITLES
from accounts.models import OffBoarding
from accounts.tenancy import invitations

_NO_COMPLETION = {"autocomplete": "off", "spellcheck": "false"}
FOLDER_CHOICES = {
    OffBoarding.Folders.KEEP: gettext_lazy("They stay with the closed account; administrators reach them."),
    OffBoarding.Folders.HAND_OVER: gettext_lazy(
        "They go to the person named below, whose sessions mount them only if asked."
    ),
    OffBoarding.Folders.DELETE: gettext_lazy("They are deleted with all that is in them."),
}

SECOND_FACTOR_CHOICES = {
    SecondFactor.OPTIONAL.value: gettext_lazy("nobody: who wants one sets it up"),
    SecondFactor.ADMINS.value: gettext_lazy("administrators"),
    SecondFactor.EVERYBODY.value: gettext_lazy("everybody"),
}


class PersonForm(forms.Form):
    """Form of a user. `roles`: roles that may be assigned. `domains`: names to choose from; a
    single one is no choice.
    """

    email = forms.CharField(
        max_length=254, label=gettext_lazy("E-mail"), widget=forms.EmailInput(attrs=_NO_COMPLETION)
    )
    name = forms.CharField(max_length=120, required=False, label=gettext_lazy("Name"))
    role = forms.ChoiceField(label=gettext_lazy("Role"))
    domain = forms.ChoiceField(label=gettext_lazy("Domain"))

    def __init__(
        self,
        data: object = None,
        *,
        roles: Sequence[Role],
        domains: Sequence[str],
        initial: dict[str, object] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)  # type: ignore[arg-type]
        self.roles = roles
        self._choose("role", [(role.value, _(ROLE_TITLES[role])) for role in roles])
        self._choose("domain", [(name, name) for name in domains])
        if len(domains) < 2:
            del self.fields["domain"]

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices


class NewPersonForm(PersonForm):
    project = forms.ChoiceField(required=False, label=gettext_lazy("First project"))
    password = forms.CharField(
        required=False,
        max_length=128,
        strip=False,
        label=gettext_lazy("Password"),
        help_text=gettext_lazy(
            "If empty, you get a link that signs the person in once, within a day. A password "
            "given here must be changed at the first sign-in."
        ),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, data: object = None, *, projects: Sequence[str], **options: object) -> None:
        super().__init__(data, **options)  # type: ignore[arg-type]
        self._choose("project", [("", _("None yet")), *((name, name) for name in projects)])


class InvitationForm(PersonForm):
    """Form of an invitation. `policies`: (id, name) of policies that may be assigned."""

    email = forms.CharField(
        required=False,
        max_length=254,
        label=gettext_lazy("E-mail"),
        help_text=gettext_lazy("E-mail address of the invited person. Empty: anybody with the link."),
        widget=forms.EmailInput(attrs=_NO_COMPLETION),
    )
    projects = forms.MultipleChoiceField(
        required=False, label=gettext_lazy("Projects"), widget=forms.SelectMultiple(attrs={"size": 4})
    )
    policy = forms.ChoiceField(required=False, label=gettext_lazy("Resource policy"))
    days = forms.IntegerField(
        min_value=1,
        max_value=invitations.MOST_DAYS,
        initial=invitations.DEFAULT_DAYS,
        label=gettext_lazy("Valid for (days)"),
    )
    uses = forms.IntegerField(
        min_value=1, max_value=invitations.MAX_USES, initial=1, label=gettext_lazy("Number of uses")
    )

    def __init__(
        self,
        data: object = None,
        *,
        domains: Sequence[str],
        projects: Sequence[str],
        policies: Sequence[tuple[str, str]],
        **options: object,
    ) -> None:
        super().__init__(data, domains=domains, **options)  # type: ignore[arg-type]
        self.domains = domains
        del self.fields["name"]
        self._choose("projects", [(name, name) for name in projects])
        self._choose("policy", [("", _("Default")), *policies])
        for name, choices in (("projects", projects), ("policy", policies)):
            if not choices:
                del self.fields[name]


class SignUpForm(forms.Form):
    sign_up = forms.ChoiceField(
        label=gettext_lazy("Sign-up"),
        choices=[(way.value, gettext_lazy(title)) for way, title in SIGN_UP_TITLES.items()],
    )
    mail_domains = forms.CharField(
        required=False,
        max_length=2000,
        label=gettext_lazy("Mail domains"),
        help_text=gettext_lazy(
            "The part of addresses after the @, separated by spaces: uni.example lab.example"
        ),
        widget=forms.TextInput(attrs=_NO_COMPLETION),
    )


class CloseUserForm(forms.Form):
    folders = forms.ChoiceField(
        label=gettext_lazy("What happens to the folders?"),
        choices=list(FOLDER_CHOICES.items()),
        initial=OffBoarding.Folders.KEEP.value,
        widget=forms.RadioSelect(attrs={"class": "form-check-input"}),
    )
    heir = forms.CharField(
        required=False,
        max_length=254,
        label=gettext_lazy("New owner of the folders"),
        help_text=gettext_lazy("E-mail address of a person in the same domain."),
        widget=forms.EmailInput(attrs=_NO_COMPLETION),
    )


class NamedForm(forms.Form):
    """Name and title of a project or domain."""

    name = forms.CharField(
        max_length=64,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Lower-case letters, digits, dots, dashes and underscores."),
        widget=forms.TextInput(attrs=_NO_COMPLETION),
    )
    title = forms.CharField(max_length=120, required=False, label=gettext_lazy("Title"))


class DomainForm(NamedForm):
    second_factor = forms.ChoiceField(
        label=gettext_lazy("Second factor required for"),
        choices=list(SECOND_FACTOR_CHOICES.items()),
        initial=SecondFactor.OPTIONAL.value,
        required=False,
    )

    def clean_second_factor(self) -> str | None:
        return self.cleaned_data["second_factor"] or None


class NewProjectForm(NamedForm):
    domain = forms.ChoiceField(label=gettext_lazy("Domain"))

    def __init__(self, data: object = None, *, domains: Sequence[str]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        field = self.fields["domain"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in domains]
        if len(domains) < 2:
            del self.fields["domain"]


class MemberForm(forms.Form):
    email = forms.CharField(
        max_length=254,
        label=gettext_lazy("E-mail"),
        widget=forms.EmailInput(attrs={**_NO_COMPLETION, "placeholder": "ada@example.org"}),
    )
    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=[(role.value, gettext_lazy(title)) for role, title in PROJECT_ROLE_TITLES.items()],
        initial=ProjectRole.MEMBER.value,
    )


class PeopleFileForm(forms.Form):
    file = forms.FileField(
        label=gettext_lazy("CSV file"),
        widget=forms.FileInput(attrs={"accept": ".csv,text/csv", "class": "form-control"}),
    )


class BulkChangeForm(forms.Form):
    change = forms.ChoiceField(label=gettext_lazy("Change"))

    def __init__(
        self, data: object = None, *, choices: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    ) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        field = self.fields["change"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("Choose one")), *((group, options) for group, options in choices if options)]
