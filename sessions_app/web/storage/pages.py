"""Pages of storage hosts: settings of each kind, rights, machines that reach them."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.selectors import may_do_everything
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found, require_global_overseer
from common.actors import Actor
from common.errors import BerthError, Conflict
from sessions_app.storage_reach import service
from sessions_app.storage_reach.selectors import host_entries, host_entry
from sessions_app.web.storage.forms import GrantFormSet, HostForm, NewHostForm, ReachForm, RestrictionForm
from vfolders.core.host_rights import right_names
from vfolders.hosts import service as hosts
from vfolders.storage.registry import KINDS


@login_required
@require_safe
def storage_host_list(request: HttpRequest) -> HttpResponse:
    """List the storage hosts, and which machines reach them."""
    actor = require_global_overseer(request)
    context = {"entries": host_entries(actor), "may_change": may_do_everything(actor)}
    return render(request, "storage/hosts.html", context)


@login_required
@require_safe
def storage_host_kinds(request: HttpRequest) -> HttpResponse:
    """Show the kinds of hosts that can be added, and what this machine lacks for each."""
    _changing_actor(request)
    kinds = [(kind, kind.lacks()) for kind in KINDS.values()]
    return render(request, "storage/kinds.html", {"kinds": kinds})


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add_storage_host(request: HttpRequest, storage_kind: str) -> HttpResponse:
    """Add a host of this kind, by a form of its declared settings."""
    actor = _changing_actor(request)
    kind = KINDS.get(storage_kind)
    if kind is None:
        raise page_not_found()
    form = NewHostForm(kind, request.POST if request.method == "POST" else None)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            name, settings = form.cleaned_data["name"], form.settings()
            host = hosts.add_host(actor=actor, name=name, kind=kind.name, settings=settings)
            messages.success(request, _("“{host}” takes folders now.").format(host=host.name))
            return redirect("storage-hosts")
    context = {"form": form, "kind": kind, "lacks": kind.lacks()}
    return render(request, "storage/add.html", context, status=422 if form.errors else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def storage_host_settings(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Show or change the settings of a host."""
    actor = _changing_actor(request)
    entry = host_entry(actor, storage_host_id)
    if entry.kind is None:
        raise page_not_found()
    present = {**entry.host.config, "is_active": entry.host.is_active, "is_default": entry.host.is_default}
    form = HostForm(entry.kind, request.POST if request.method == "POST" else None, initial=present)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            values = {name: form.cleaned_data[name] for name in ("is_active", "is_default")}
            hosts.change_host(actor=actor, host_id=storage_host_id, settings=form.settings(), **values)
            messages.success(request, _("Saved."))
            return redirect("storage-hosts")
    context = {"form": form, "entry": entry}
    return render(request, "storage/settings.html", context, status=422 if form.errors else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def storage_host_rights(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Show or change who has which rights on a host."""
    actor = _changing_actor(request)
    entry = host_entry(actor, storage_host_id)
    present = [
        {"holder": each.holder, "name": each.holder_name, "rights": right_names(each.rights)}
        for each in entry.host.grants.all()
    ]
    data = request.POST if request.method == "POST" else None
    form = RestrictionForm(data, initial={"is_restricted": entry.host.is_restricted})
    rows = GrantFormSet(data, initial=present, prefix="grants")
    if form.is_valid() and rows.is_valid():
        with errors_in_form(form, BerthError):
            grants = [row.grant() for row in rows if row.cleaned_data.get("name")]
            is_restricted = form.cleaned_data["is_restricted"]
            hosts.restrict_host(
                actor=actor, host_id=storage_host_id, grants=grants if is_restricted else None
            )
            messages.success(request, _("Saved."))
            return redirect("storage-hosts")
    context = {"form": form, "rows": rows, "entry": entry}
    is_wrong = bool(form.errors) or (rows.is_bound and not rows.is_valid())
    return render(request, "storage/rights.html", context, status=422 if is_wrong else 200)


@login_required
@require_POST
def remove_storage_host(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Remove a host without folders."""
    actor = _changing_actor(request)
    name = host_entry(actor, storage_host_id).host.name
    try:
        hosts.remove_host(actor=actor, host_id=storage_host_id)
    except Conflict as error:
        messages.error(request, f"{error.message} {error.hint}")
    else:
        messages.success(request, _("“{host}” is removed; its files stay.").format(host=name))
    return redirect("storage-hosts")


def _changing_actor(request: HttpRequest) -> Actor:
    actor = require_global_overseer(request)
    if not may_do_everything(actor):
        raise page_not_found()
    return actor


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def storage_host_page(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Show or change how machines reach a host."""
    actor = _changing_actor(request)
    entry = host_entry(actor, storage_host_id)
    present = {"reach": entry.host.reach, "agent_path": entry.host.agent_path, **entry.host.volume_options}
    form = ReachForm(request.POST if request.method == "POST" else None, initial=present)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            service.change_reach(actor=actor, host_id=storage_host_id, changes=form.changes())
            messages.success(request, _("Saved. All machines are proven within seconds."))
            return redirect("storage-hosts")
    return render(
        request, "storage/host.html", {"form": form, "entry": entry}, status=422 if form.errors else 200
    )


@login_required
@require_POST
def check_storage_host(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Prove all machines again."""
    actor = _changing_actor(request)
    host = hosts.probe_host(actor=actor, host_id=storage_host_id)
    service.check_host(actor=actor, host_id=storage_host_id)
    if host.error:
        messages.error(request, _("“{host}” is unhealthy: {error}").format(host=host.name, error=host.error))
    else:
        sentence = _("“{host}” is healthy. All machines prove it again within seconds.")
        messages.success(request, sentence.format(host=host.name))
    return redirect("storage-hosts")
