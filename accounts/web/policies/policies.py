"""Pages of resource policies: list, creation, assignment, and change with a preview of its
impact.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.core import authorization
from accounts.core.allow_lists import TITLES, AllowList, format_entries
from accounts.core.authorization import Action, ActorScope
from accounts.core.limits import Level, format_limit, is_floor, limit_title
from accounts.core.utilization import MIN_UTILIZATION_COLUMNS, is_joint
from accounts.models import ALLOW_COLUMNS, Domain, ResourcePolicy, policy_limits
from accounts.policies import service
from accounts.policies.selectors import (
    Impact,
    access_policy,
    assignable_policies,
    limited_objects,
    policy_impact,
    use_counts,
    visible_policies,
)
from accounts.selectors import (
    find_domain,
    may_do_everything,
    read_actor_scope,
    sees_everything,
    visible_domains,
)
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import add_errors, errors_as_messages, form_digest
from accounts.web.page_access import page_not_found, require_administrator
from accounts.web.policies.forms import PolicyForm, form_field, limits_initial
from common.actors import Actor
from common.errors import BerthError, Conflict, NotFound
from common.pages.tables import Column, Filter, Listing, Table, define_table
from common.rest.idempotency import submit_once

TABLE = define_table(
    Table(
        name="policies",
        noun=gettext_noop("policies"),
        sort="name",
        search=lambda text: Q(name__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Policy"), ("name", "id"), is_fixed=True),
            Column("domain", gettext_noop("Domain"), ("domain__name", "name")),
            Column("limits", gettext_noop("Limits")),
            Column("users", gettext_noop("Used by")),
        ),
        filters=(Filter("domain", gettext_noop("Domain"), lambda name: Q(domain__name=name)),),
    )
)
SHOWN_USERS = 50
SHOWN_LIMITS = 4
_PAGES = {Level.DOMAIN: "domain", Level.PROJECT: "project", Level.USER: "person"}


@require_GET
@login_required
def policy_list(request: HttpRequest) -> HttpResponse:
    actor = require_administrator(request)
    allowed = _actions(actor)
    if Action.VIEW not in allowed:
        raise page_not_found()
    listing = Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name))
    if sees_everything(actor):
        names = visible_domains(actor).values_list("name", flat=True)
        listing.choices = {"domain": [(name, name) for name in names]}
    page = listing.page(visible_policies(actor), lambda policies: policies)
    counts = use_counts(actor, page)
    rows = [
        {"policy": policy, "limits": limit_words(policy), "users": count_words(counts[policy.pk])}
        for policy in page
    ]
    context = {"listing": listing, "columns": listing.columns, "page": page, "rows": rows}
    context["can_create"] = Action.CREATE in allowed
    return render(request, "accounts/policies.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="policies")
def new_policy(request: HttpRequest) -> HttpResponse:
    """Show an empty form, with ?from= a copy of another policy. POST creates a policy."""
    actor = _require_policy_access(request, Action.CREATE)
    if request.method != "POST":
        return _form_page(request, PolicyForm(domains=_domains(actor), initial=_copy_initial(request, actor)))
    form = PolicyForm(request.POST, domains=_domains(actor))
    if not form.is_valid():
        return _form_page(request, form, status=422)
    try:
        domain = _wanted_domain(actor, form)
        policy = service.create_policy(
            actor=actor, name=form.cleaned_data["name"], domain=domain, limits=form.limits()
        )
    except BerthError as refusal:
        _mark(form, refusal)
        return _form_page(request, form, status=422)
    messages.success(
        request,
        _("The policy “{name}” is ready. It limits nobody until it is assigned.").format(name=policy.name),
    )
    return redirect("policy", policy.pk)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def policy_page(request: HttpRequest, policy_id: int) -> HttpResponse:
    """Show one policy; POST previews affected objects, and saves once confirmed."""
    actor = _require_policy_access(request)
    if request.method != "POST":
        policy = access_policy(actor, policy_id, Action.VIEW)
        initial = {"name": policy.name, **limits_initial(policy)}
        return _policy_page(request, actor, policy, PolicyForm(domains=(), initial=initial))
    policy = access_policy(actor, policy_id, Action.EDIT)
    form = PolicyForm(request.POST, domains=())
    if not form.is_valid():
        return _policy_page(request, actor, policy, form, status=422)
    limits = form.limits()
    impact = policy_impact(actor, policy, limits)
    is_same = all(getattr(policy, column) == value for column, value in limits.items())
    if impact.scope_count and not is_same and request.POST.get("sure") != form_digest(limits):
        context: dict[str, Any] = {
            "impact": _impact_words(impact, policy, limits),
            "sure": form_digest(limits),
        }
        return _policy_page(request, actor, policy, form, **context)
    try:
        service.update_policy(actor=actor, policy_id=policy_id, name=form.cleaned_data["name"], limits=limits)
    except BerthError as refusal:
        _mark(form, refusal)
        return _policy_page(request, actor, policy, form, status=422)
    messages.success(request, _("The policy is changed. It holds from now on."))
    return redirect("policy", policy_id)


@login_required
@require_POST
def make_default(request: HttpRequest, policy_id: int) -> HttpResponse:
    with errors_as_messages(request, Conflict):
        policy = service.make_default(actor=_require_policy_access(request), policy_id=policy_id)
        messages.success(
            request, _("New people get the policy “{name}” from now on.").format(name=policy.name)
        )
    return redirect("policy", policy_id)


@login_required
@require_POST
def delete_policy(request: HttpRequest, policy_id: int) -> HttpResponse:
    actor = _require_policy_access(request)
    policy = access_policy(actor, policy_id, Action.PURGE)
    with errors_as_messages(request):
        if request.POST.get("confirm", "") != policy.name:
            raise NotFound(_("This is not the name of the policy, so nothing was done."))
        service.delete_policy(actor=actor, policy_id=policy_id)
        messages.success(request, _("The policy “{name}” is deleted.").format(name=policy.name))
        return redirect("policies")
    return redirect("policy", policy_id)


@login_required
@require_POST
def assign(request: HttpRequest, level: str, scope_id: int) -> HttpResponse:
    """Assign a policy on the page of a domain, project or user, and return there."""
    actor = require_administrator(request)
    if level not in _PAGES:
        raise page_not_found()
    target = service.access_limited(actor, Level(level), scope_id)
    with errors_as_messages(request):
        wanted = request.POST.get("policy", "")
        policies = assignable_policies(actor, Level(level), service.target_domain_id(target))
        policy = policies.filter(pk=int(wanted)).first() if wanted.isdecimal() and len(wanted) < 18 else None
        if wanted and policy is None:
            raise NotFound(_("There is no such resource policy among those that you may see."))
        service.assign_policy(actor=actor, target=target, policy=policy)
        sentence = _("The policy “{name}” holds now.") if policy else _("No policy limits this any more.")
        messages.success(request, sentence.format(name=policy.name if policy else ""))
    return redirect(f"{reverse(_PAGES[Level(level)], args=[scope_id])}#policy")


def policy_card(
    actor: Actor, target: service.LimitedObject, *, may_limit: bool, actor_scope: ActorScope | None = None
) -> dict[str, Any]:
    """Return the context of includes/policy_card.html: the policy of `target` and those that may be
    assigned. At most 3 queries.
    """
    level = service.target_level(target)
    home = service.target_domain_id(target)
    choices = assignable_policies(actor, level, home, actor_scope) if may_limit else ()
    policy = target.policy
    return {
        "policy": policy,
        "limits": limit_words(policy, most=100) if policy else "",
        "choices": choices,
        "action_url": reverse("policy-assign", args=[level.value, target.pk]),
        "may_limit": may_limit,
        "can_change": may_limit and (policy is None or policy in choices),
    }


def limit_words(policy: ResourcePolicy, most: int = SHOWN_LIMITS) -> str:
    """Return the first limits as text, e.g. "Live sessions: 10, CPU in sessions: 16 cores". Limits
    not set are unlimited.
    """
    joint = is_joint(
        policy.use_rule, [name for name in MIN_UTILIZATION_COLUMNS if vars(policy)[name] is not None]
    )
    pairs = [
        *(
            (limit_title(limit), _value_words(limit, value, joint=joint))
            for limit, value in policy_limits(vars(policy)).items()
        ),
        *((_(TITLES[kind]), _entries(vars(policy)[column])) for kind, column in _lists(policy)),
    ]
    words = [_("{title}: {value}").format(title=title, value=value) for title, value in pairs]
    return _(", ").join(words[:most]) + (" …" if len(words) > most else "")


def _value_words(limit: str, value: int, *, joint: bool) -> str:
    words = format_limit(limit, value)
    return _("{least} or another").format(least=words) if joint and is_floor(limit) else words


def _lists(policy: ResourcePolicy) -> list[tuple[AllowList, str]]:
    """Return the allow-lists of the policy with their columns."""
    return [(kind, column) for kind, column in ALLOW_COLUMNS.items() if getattr(policy, column) is not None]


def _entries(entries: Sequence[str] | None) -> str:
    """Return an allow-list as text."""
    return _("all") if entries is None else format_entries(entries) or _("none")


def count_words(counts: dict[Level, int]) -> str:
    """Return counts as text, e.g. "1 domain, 12 people"; "" if all are zero."""
    words = {
        Level.DOMAIN: ngettext("{count} domain", "{count} domains", counts[Level.DOMAIN]),
        Level.PROJECT: ngettext("{count} project", "{count} projects", counts[Level.PROJECT]),
        Level.USER: ngettext("{count} person", "{count} people", counts[Level.USER]),
        Level.KEYPAIR: ngettext("{count} token", "{count} tokens", counts[Level.KEYPAIR]),
    }
    return _(", ").join(words[level].format(count=count) for level, count in counts.items() if count)


def _impact_words(impact: Impact, policy: ResourcePolicy, limits: Mapping[str, Any]) -> dict[str, Any]:
    lists = [
        _("{title}: {before} → {after}").format(
            title=_(TITLES[kind]), before=_entries(getattr(policy, column)), after=_entries(limits[column])
        )
        for kind, column in ALLOW_COLUMNS.items()
        if getattr(policy, column) != limits[column]
    ]
    above = [
        _("{who} — {limit}: {used} in use, {value} allowed.").format(
            who=state.scope_name, limit=state.title,
            used=format_limit(state.limit, state.used), value=format_limit(state.limit, state.value),
        )
        for state in impact.above
    ]  # fmt: skip
    return {
        "whom": count_words(dict(impact.counts)),
        "above": above,
        "is_ending": impact.is_ending,
        "lists": lists,
        "more": max(0, impact.above_count - len(above)),
    }


def _require_policy_access(request: HttpRequest, action: Action = Action.VIEW) -> Actor:
    """Return the actor if it may take the action on any policy. Raises NotFound."""
    actor = require_administrator(request)
    if action not in _actions(actor):
        raise page_not_found()
    return actor


def _actions(actor: Actor) -> authorization.Actions:
    actor_scope = read_actor_scope(actor)
    return authorization.policy_actions(actor_scope, actor_scope.domain_id)


def _domains(actor: Actor) -> list[str]:
    own = list(visible_domains(actor).filter(is_active=True).values_list("name", flat=True))
    return ["", *own] if may_do_everything(actor) else own


def _wanted_domain(actor: Actor, form: PolicyForm) -> Domain | None:
    name = form.cleaned_data.get("domain", "")
    return find_domain(actor, name) if name or not may_do_everything(actor) else None


def _copy_initial(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    wanted = request.GET.get("from", "")
    if not (wanted.isdecimal() and len(wanted) < 18):
        return {}
    policy = access_policy(actor, int(wanted), Action.VIEW)
    return {"name": _("{name} copy").format(name=policy.name)[:64], **limits_initial(policy)}


def _mark(form: PolicyForm, refusal: BerthError) -> None:
    refusal.fields = {form_field(column): sentences for column, sentences in refusal.fields.items()}
    add_errors(form, refusal)


def _form_page(request: HttpRequest, form: PolicyForm, *, status: int = 200) -> HttpResponse:
    return render(request, "accounts/new_policy.html", {"form": form}, status=status)


def _policy_page(
    request: HttpRequest,
    actor: Actor,
    policy: ResourcePolicy,
    form: PolicyForm,
    *,
    status: int = 200,
    **extra: Any,
) -> HttpResponse:
    used_by = [
        {"level": level, "name": name, "url": reverse(_PAGES[level], args=[pk]) if level in _PAGES else ""}
        for level, pk, name in limited_objects(actor, policy, most=SHOWN_USERS)
    ]
    actor_scope = read_actor_scope(actor)
    allowed = authorization.policy_actions(actor_scope, policy.domain_id)
    context = {
        "policy": policy,
        "form": form if Action.EDIT in allowed else None,
        "limits": limit_words(policy, most=100),
        "used_by": used_by,
        "users": count_words(use_counts(actor, [policy])[policy.pk]),
        "can_copy": Action.CREATE in authorization.policy_actions(actor_scope, actor_scope.domain_id),
        "can_delete": Action.PURGE in allowed,
        "can_make_default": may_do_everything(actor) and policy.domain_id is None and not policy.is_default,
        **extra,
    }
    return render(request, "accounts/policy.html", context, status=status)
