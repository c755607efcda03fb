"""Pages that check, run and report imports of users from a file."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.roles import Role
from accounts.core.user_csv import COLUMNS, MOST_BYTES, MOST_ROWS, ROW_FAULT, TEMPLATE
from accounts.models import PeopleImport, PeopleImportLine
from accounts.selectors import access_import, read_actor_scope
from accounts.tenancy import user_import
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found, require_administrator
from accounts.web.people.forms import PeopleFileForm
from common.actors import Actor
from common.pages.csv_export import Row, as_csv
from common.pages.htmx import render_page_or_fragment

Outcome = PeopleImportLine.Outcome
TITLES = {
    Outcome.NEW: gettext_noop("New"),
    Outcome.CHANGED: gettext_noop("Changed"),
    Outcome.UNCHANGED: gettext_noop("Unchanged"),
    Outcome.REFUSED: gettext_noop("Not possible"),
}
TONES = {
    Outcome.NEW: ("is-good", "plus"),
    Outcome.CHANGED: ("is-busy", "refresh"),
    Outcome.UNCHANGED: ("is-quiet", "circle-check"),
    Outcome.REFUSED: ("is-bad", "alert-circle"),
}
PAGE_ROWS = 100
REPORT_COLUMNS = ("row", *COLUMNS, "outcome", "changes", "faults")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def import_form(request: HttpRequest) -> HttpResponse:
    """Show the upload form; POST checks a file and redirects to the preview."""
    actor = _require_importer(request)
    form = PeopleFileForm(request.POST, request.FILES) if request.method == "POST" else PeopleFileForm()
    if request.method == "POST" and form.is_valid():
        file = form.cleaned_data["file"]
        with errors_in_form(form):
            # One byte more than the limit shows that the file is too large.
            people_import = user_import.check_import(
                actor=actor, name=file.name, content=file.read(MOST_BYTES + 1)
            )
            return redirect("people-import", people_import.pk)
    return _form_page(request, actor, form)


@require_GET
@login_required
def import_template(request: HttpRequest) -> HttpResponse:
    _require_importer(request)
    return csv_file("people-template.csv", TEMPLATE)


@require_GET
@login_required
def import_page(request: HttpRequest, import_id: int) -> HttpResponse:
    """Show the planned effect or result of each row, as page or htmx fragment."""
    people_import = access_import(require_administrator(request), import_id)
    tally = people_import.tally()
    counts = tally.counts
    total = sum(counts.values())
    chosen = request.GET.get("outcome", "")
    lines = (
        people_import.lines.filter(outcome=chosen) if chosen in Outcome.values else people_import.lines.all()
    )
    page = Paginator(lines, PAGE_ROWS).get_page(request.GET.get("page"))
    good = counts.get(Outcome.NEW, 0) + counts.get(Outcome.CHANGED, 0)
    context = {
        "people_import": people_import,
        "tabs": _tabs(counts, total, chosen),
        "page": page,
        "rows": [_row(line) for line in page],
        "good": good,
        "done": tally.done,
        "to_do": tally.to_do,
        "has_new": bool(people_import.finished_at and counts.get(Outcome.NEW)),
        "is_under_way": bool(people_import.started_at and not people_import.finished_at),
    }
    return render_page_or_fragment(request, "accounts/import.html", "accounts/_import.html", context)


@require_POST
@login_required
def start_import(request: HttpRequest, import_id: int) -> HttpResponse:
    people_import = user_import.start_import(actor=_require_importer(request), import_id=import_id)
    if people_import.finished_at:
        messages.success(request, _("The rows are taken in; what came of each stands below."))
    return redirect("people-import", people_import.pk)


@require_GET
@login_required
def import_report(request: HttpRequest, import_id: int) -> HttpResponse:
    """Return the rows with their results as CSV."""
    people_import = access_import(require_administrator(request), import_id)
    return csv_file(
        f"people-import-{people_import.pk}.csv", [REPORT_COLUMNS, *map(_cells, people_import.lines.all())]
    )


@require_POST
@login_required
@never_cache
def import_links(request: HttpRequest, import_id: int) -> HttpResponse:
    """Return a CSV file with a new sign-in link for each imported user who never signed in."""
    links = user_import.create_links(actor=_require_importer(request), import_id=import_id)
    rows = [(email, settings.BERTH_URL + reverse("sign-in-once", args=[code])) for email, code in links]
    return csv_file(f"sign-in-links-{import_id}.csv", [("email", "link"), *rows])


def csv_file(name: str, rows: Iterable[Row]) -> HttpResponse:
    """Return a CSV response with a byte order mark, by which spreadsheets recognise UTF-8."""
    response = HttpResponse("\ufeff" + as_csv(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    return response


def _require_importer(request: HttpRequest) -> Actor:
    actor = require_administrator(request)
    if not authorization.assignable_roles(read_actor_scope(actor)):
        raise page_not_found()
    return actor


def _form_page(request: HttpRequest, actor: Actor, form: PeopleFileForm) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "most": MOST_ROWS,
        "roles": [role.value for role in authorization.assignable_roles(read_actor_scope(actor))],
        "recent": PeopleImport.objects.filter(asked_by_id=actor.user_id)[:5],
        "usual_role": Role.USER.value,
    }
    return render(
        request, "accounts/import_form.html", context, status=422 if request.method == "POST" else 200
    )


def _tabs(counts: dict[str, int], total: int, chosen: str) -> list[dict[str, Any]]:
    every = {"label": _("All"), "url": "?", "count": total, "is_active": chosen not in Outcome.values}
    return [
        every,
        *(
            {
                "label": _(title),
                "url": f"?outcome={outcome.value}",
                "count": counts.get(outcome.value, 0),
                "is_active": chosen == outcome.value,
            }
            for outcome, title in TITLES.items()
        ),
    ]


def _row(line: PeopleImportLine) -> dict[str, Any]:
    outcome = Outcome(line.outcome)
    tone, icon = TONES[outcome]
    return {
        "number": line.number,
        "email": line.values.get("email", ""),
        "name": line.values.get("name", ""),
        "role": line.values.get("role", ""),
        "projects": line.values.get("projects", ""),
        "word": _(TITLES[outcome]),
        "tone": tone,
        "icon": icon,
        "changes": ", ".join(line.changes),
        "faults": [("" if name == ROW_FAULT else name, sentence) for name, sentence in line.faults.items()],
        "is_done": line.is_done,
    }


def _cells(line: PeopleImportLine) -> Row:
    """Return one row of the report (REPORT_COLUMNS), before import with the planned outcome."""
    faults = "; ".join(f"{name}: {sentence}" for name, sentence in line.faults.items())
    return (
        line.number, *(line.values.get(name, "") for name in COLUMNS),
        line.outcome if line.is_done or line.outcome == Outcome.REFUSED else f"would be {line.outcome}",
        " ".join(line.changes), faults,
    )  # fmt: skip
