"""Profile pages of dotfiles, the start-up script and the secret that signs callbacks."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.web.form_errors import add_errors
from common.errors import BerthError
from common.pages.form_fields import UncheckedChoice, UncheckedField
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from sessions_app.callbacks.signing_secret import callback_secret, make_callback_secret
from sessions_app.core.dotfile_rules import DEFAULT_MODE, MAX_DOTFILES, MAX_PATH_BYTES
from sessions_app.dotfiles import service
from sessions_app.models import Dotfile

MODES = (
    ("0644", gettext_lazy("0644: everybody in the session reads it")),
    ("0600", gettext_lazy("0600: only you read it")),
    ("0755", gettext_lazy("0755: a program")),
    ("0700", gettext_lazy("0700: a program, only for you")),
)
CODE = {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off", "class": "code"}


class CodeField(UncheckedField):
    """Text of a file; converts the CRLF line ends that browsers send."""

    def clean(self, value: Any) -> str:
        return super().clean(value).replace("\r\n", "\n")


class DotfileForm(forms.Form):
    path = UncheckedField(
        max_length=MAX_PATH_BYTES,
        label=gettext_lazy("Path"),
        help_text=gettext_lazy("Path below the home directory, like .bashrc or .config/git/config."),
        widget=forms.TextInput(attrs={**CODE, "placeholder": ".bashrc"}),
    )
    content = CodeField(
        required=False, label=gettext_lazy("Content"), widget=forms.Textarea(attrs={**CODE, "rows": 12})
    )
    mode = UncheckedChoice(label=gettext_lazy("Mode"), required=False, initial=DEFAULT_MODE)

    def __init__(self, *arguments: Any, mode: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        known = dict(MODES)
        self.fields["mode"].choices = [*MODES, *([(mode, mode)] if mode and mode not in known else [])]  # type: ignore[attr-defined]


class ScriptForm(forms.Form):
    content = CodeField(
        label=gettext_lazy("Script"),
        widget=forms.Textarea(attrs={**CODE, "rows": 10, "placeholder": "pip install --user black"}),
    )


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def dotfiles_page(request: HttpRequest) -> HttpResponse:
    """Show the page; POST saves a new file, or replaces the one at `?path=`."""
    actor = actor_of(request)
    path = request.GET.get("path", "")
    file = service.access_dotfile(actor, path) if path else None
    if request.method != "POST":
        return _page(request, _form_of(file), file=file)
    form = DotfileForm(request.POST, mode=file.mode if file else "")
    asked = form.cleaned_data if form.is_valid() else {}
    if not asked:
        return _page(request, form, file=file, status=400)
    try:
        kept, _is_new = service.put_dotfile(
            actor=actor,
            path=file.path if file else asked["path"].strip(),
            content=asked["content"],
            mode=asked["mode"] or DEFAULT_MODE,
        )
    except BerthError as refusal:
        add_errors(form, refusal)
        return _page(request, form, file=file, status=refusal.http_status)
    messages.success(
        request, _("“{path}” is saved: sessions that start from now on have it.").format(path=kept.path)
    )
    return redirect("dotfiles")


@login_required
@require_POST
def remove_dotfile(request: HttpRequest) -> HttpResponse:
    path = request.POST.get("path", "")
    service.remove_dotfile(actor=actor_of(request), path=path)
    messages.success(
        request, _("“{path}” is removed. Sessions that run have theirs still.").format(path=path)
    )
    return redirect("dotfiles")


@login_required
@require_POST
def set_startup_script(request: HttpRequest) -> HttpResponse:
    form = ScriptForm(request.POST)
    if not form.is_valid():
        return _page(request, _form_of(None), script=form, status=400)
    try:
        service.set_startup_script(actor=actor_of(request), content=form.cleaned_data["content"])
    except BerthError as refusal:
        add_errors(form, refusal)
        return _page(request, _form_of(None), script=form, status=refusal.http_status)
    messages.success(request, _("The start-up script is saved: it runs in sessions that start from now on."))
    return redirect("dotfiles")


@login_required
@require_POST
def remove_startup_script(request: HttpRequest) -> HttpResponse:
    service.remove_startup_script(actor=actor_of(request))
    messages.success(request, _("The start-up script is removed."))
    return redirect("dotfiles")


def _form_of(file: Dotfile | None) -> DotfileForm:
    if file is None:
        return DotfileForm()
    return DotfileForm(
        initial={"path": file.path, "content": file.content, "mode": file.mode}, mode=file.mode
    )


def _page(
    request: HttpRequest,
    form: DotfileForm,
    *,
    file: Dotfile | None = None,
    script: ScriptForm | None = None,
    status: int = 200,
) -> HttpResponse:
    actor = actor_of(request)
    kept = service.startup_script(actor)
    context = {
        "dotfiles": service.visible_dotfiles(actor),
        "most": MAX_DOTFILES,
        "form": form,
        "file": file,
        "script": script or ScriptForm(initial={"content": kept.content if kept else ""}),
        "kept": kept,
        "seconds": settings.BERTH_STARTUP_SCRIPT_S,
    }
    return render(request, "sessions_app/dotfiles.html", context, status=status)


EXAMPLE = """\
import hashlib, hmac, time

def is_from_berth(secret: str, headers, body: bytes) -> bool:
    told, sent = headers["Berth-Timestamp"], headers["Berth-Signature"]
    text = told.encode() + b"." + body
    made = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    is_fresh = abs(time.time() - int(told)) < 300
    return is_fresh and hmac.compare_digest(sent, f"v1={made}")
"""


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="callbacks")
def callbacks_page(request: HttpRequest) -> HttpResponse:
    """Show the page; POST creates a new secret and shows it once."""
    actor = actor_of(request)
    text = make_callback_secret(actor=actor) if request.method == "POST" else ""
    context = {"kept": callback_secret(actor), "secret": text, "example": EXAMPLE}
    return render(request, "sessions_app/callbacks.html", context, status=201 if text else 200)
