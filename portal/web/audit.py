"""Pages Audit and My activity, details of one line of the audit log, and both lists as CSV."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET

from accounts.tenancy.preferences import column_choice
from common import clock
from common.actors import Actor
from common.errors import NotFound
from common.http.user_agent import device_name
from common.models import AuditEntry
from common.pages.csv_export import csv_response
from common.pages.htmx import is_fragment, render_page_or_fragment
from common.pages.tables import Column, Filter, Listing, Table, define_table
from common.rest.actor import actor_of
from common.templatetags.berth import moment
from portal.audit import labels
from portal.audit.links import object_url
from portal.audit.selectors import access_entry, governs_others, own_entries, visible_entries, with_origin

HOUR = timedelta(hours=1)


def _since(hours: str) -> Q:
    return Q(recorded_at__gte=clock.now() - int(hours) * HOUR) if hours in labels.PERIODS_H else Q()


def _actor(text: str) -> Q:
    """Return the condition for an actor's address; stored in lower case, as a case-sensitive search
    is three times as fast.
    """
    return Q(actor_label__contains=text.lower())


def _object(name: str) -> Q:
    kind, _colon, key = name.partition(":")
    return Q(target_type=kind, target_id=key)


TABLE = define_table(
    Table(
        name="audit",
        noun=gettext_noop("lines"),
        sort="-when",
        search=lambda text: (
            _actor(text) | Q(target_label__icontains=text) | Q(target_id=text) | Q(request_id=text)
        ),
        search_label=gettext_noop("Search people, objects, request ids"),
        columns=(
            Column("when", gettext_noop("When"), ("recorded_at",), is_number=True, is_fixed=True),
            Column("who", gettext_noop("Who")),
            Column("what", gettext_noop("What"), is_fixed=True),
            Column("object", gettext_noop("Object")),
            Column("outcome", gettext_noop("Outcome")),
            Column("from", gettext_noop("From")),
            Column("request", gettext_noop("Request id"), is_usual=False),
        ),
        filters=(
            Filter("since", gettext_noop("Time"), _since, is_single=True),
            Filter("outcome", gettext_noop("Outcome"), lambda name: Q(outcome=name)),
            Filter("who", gettext_noop("Who"), _actor, is_typed=True),
            Filter("kind", gettext_noop("Kind of object"), lambda name: Q(target_type=name)),
            Filter("object", gettext_noop("Object"), _object),
            Filter("action", gettext_noop("What"), lambda name: Q(action=name)),
        ),
    )
)
EXPORTED = (
    "time", "count", "last time", "actor", "actor kind", "acted as", "action", "object kind", "object id", "object",
    "outcome", "reason", "ip", "via", "user agent", "request id", "changes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Line of the audit log, formatted for display."""

    id: int
    when: SafeString | str
    count: int
    who: str
    acted_as: str
    what: str
    kind: str
    object: str
    outcome: str
    ip: str
    device: str
    request_id: str


@require_GET
@login_required
def audit_list(request: HttpRequest) -> HttpResponse:
    """Show the audit log: all of it for superadmins, that of their domain for domain admins."""
    actor = actor_of(request)
    _require_oversight(actor)
    return _list(request, actor, visible_entries(actor), is_own=False)


@require_GET
@login_required
def own_activity(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    return _list(request, actor, own_entries(actor), is_own=True)


@require_GET
@login_required
def audit_entry(request: HttpRequest, entry_id: int) -> HttpResponse:
    """Show the details of one line, as a page or in the drawer."""
    actor = actor_of(request)
    entry = access_entry(actor, entry_id)
    is_more = governs_others(actor)
    context = {
        "entry": entry,
        "row": _row(entry),
        "reason": labels.label(labels.REASONS, entry.reason) if entry.reason else "",
        "way": labels.label(labels.WAYS, entry.via) if entry.via else "",
        "object": entry.target_label or entry.target_id,
        "facts": _facts(entry),
        "changes": _changes(entry),
        "place": object_url(actor, entry.target_type, entry.target_id),
        "list_url": reverse("audit" if is_more else "own-activity"),
        "list_title": _("Audit") if is_more else _("My activity"),
        "same_object": f"{entry.target_type}:{entry.target_id}" if entry.target_id else "",
    }
    return render_page_or_fragment(request, "portal/audit_entry.html", "portal/_audit_entry.html", context)


@require_GET
@login_required
def audit_export(request: HttpRequest) -> StreamingHttpResponse:
    actor = actor_of(request)
    _require_oversight(actor)
    return _export(request, actor, visible_entries(actor))


@require_GET
@login_required
def own_activity_export(request: HttpRequest) -> StreamingHttpResponse:
    actor = actor_of(request)
    return _export(request, actor, own_entries(actor))


def _require_oversight(actor: Actor) -> None:
    if not governs_others(actor):
        raise NotFound(_("There is nothing at this address, or it is not yours to see."))


def _list(request: HttpRequest, actor: Actor, entries: QuerySet[AuditEntry], *, is_own: bool) -> HttpResponse:
    listing = _listing(request, actor, is_own=is_own)
    if not is_fragment(request):
        listing.choices = {
            "since": _choices(labels.PERIODS_H),
            "outcome": _choices(labels.OUTCOMES),
            "kind": sorted(_choices(labels.KINDS), key=lambda choice: choice[1]),
            "action": sorted(_choices(labels.ACTIONS), key=lambda choice: choice[1]),
        }
    page = listing.page(entries, partial(with_origin, actor))
    context = {
        "listing": listing,
        "page": page,
        "columns": listing.columns,
        "rows": [_row(entry) for entry in page],
        "is_own": is_own,
        "export_url": reverse("own-activity-export" if is_own else "audit-export"),
    }
    return render_page_or_fragment(request, "portal/audit.html", "portal/_audit.html", context)


def _listing(request: HttpRequest, actor: Actor, *, is_own: bool) -> Listing:
    without: Collection[str] = ("who",) if is_own else ()
    return Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), without=without)


def _choices(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(code, _(label)) for code, label in table.items()]


def _row(entry: Any) -> AuditRow:
    """Return the row of a line that has `with_origin`."""
    return AuditRow(
        id=entry.pk,
        when=moment(entry.recorded_at),
        count=entry.count,
        who=_who(entry),
        acted_as=entry.acted_as_label,
        what=labels.label(labels.ACTIONS, entry.action),
        kind=labels.label(labels.KINDS, entry.target_type) if entry.target_type else "",
        object=entry.target_label or str(entry.changes.get("asked", "")),
        outcome=entry.outcome,
        ip=entry.ip if entry.shows_origin else "",
        device=device_name(entry.user_agent) if entry.shows_origin else "",
        request_id=entry.request_id,
    )


def _who(entry: AuditEntry) -> str:
    if entry.actor_id is not None:
        return entry.actor_label
    return _("Berth") if entry.actor_kind == "system" else _("not signed in")


def _facts(entry: AuditEntry) -> list[dict[str, str]]:
    """Return [{"name", "value"}] of the requested values."""
    return [
        {"name": labels.label(labels.FACTS, name), "value": labels.value_for_people(value)}
        for name, value in entry.changes.items()
        if not _is_pair(value)
    ]


def _changes(entry: AuditEntry) -> list[dict[str, str]]:
    """Return [{"name", "before", "after"}] of the changed values."""
    return [
        {
            "name": labels.label(labels.FACTS, name),
            "before": labels.value_for_people(value[0]),
            "after": labels.value_for_people(value[1]),
        }
        for name, value in entry.changes.items()
        if _is_pair(value)
    ]


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _export(request: HttpRequest, actor: Actor, entries: QuerySet[AuditEntry]) -> StreamingHttpResponse:
    rows = _listing(request, actor, is_own=False).of_tab(entries)
    return csv_response("audit.csv", EXPORTED, rows, partial(with_origin, actor), _cells)


def _cells(entry: Any) -> tuple[object, ...]:
    """Return one line of EXPORTED."""
    ip, user_agent = (entry.ip, entry.user_agent) if entry.shows_origin else ("", "")
    last_at = entry.last_at.isoformat(timespec="seconds") if entry.last_at else ""
    return (
        entry.recorded_at.isoformat(timespec="seconds"), entry.count, last_at, entry.actor_label, entry.actor_kind,
        entry.acted_as_label, entry.action, entry.target_type, entry.target_id, entry.target_label, entry.outcome,
        entry.reason, ip, entry.via, user_agent, entry.request_id, str(entry.changes),
    )  # fmt: skip
