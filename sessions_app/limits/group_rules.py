"""Checks resource groups' rules for sessions (type, size, access), and counts their sessions."""

from collections.abc import Iterable

from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext as _

from accounts.core.roles import Role
from agents.core.group_limits import parse_limits
from agents.core.sandboxes import SANDBOX_NAMES, gives_devices
from agents.models import GroupGrant, ResourceGroup, SessionType
from common.errors import InvalidInput, LimitExceeded
from common.i18n import paragraph
from common.values.durations import format_duration
from common.values.resources import CPU, MEM, format_amount
from sessions_app.core.request import SessionRequest
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession


def session_counts(group_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return {group id: {"waiting", "running"}}; groups without sessions are left out. One query."""
    live = ComputeSession.objects.live().filter(resource_group_id__in=list(group_ids)).order_by()
    is_waiting = Q(status=Status.PENDING.value)
    rows = live.values("resource_group_id").annotate(
        waiting=Count("pk", filter=is_waiting), running=Count("pk", filter=~is_waiting)
    )
    return {row["resource_group_id"]: {"waiting": row["waiting"], "running": row["running"]} for row in rows}


def check_session_type(group: ResourceGroup, session_type: str) -> None:
    """Raise InvalidInput if the group does not admit sessions of this type."""
    if session_type in group.session_types:
        return
    sentence = _("The resource group “{group}” takes no sessions of the type “{type}”.").format(
        group=group.name, type=SessionType(session_type).label
    )
    raise InvalidInput(
        sentence, hint=_("Choose another resource group."), fields={"resource_group": [sentence]}
    )


def check_sandbox(group: ResourceGroup, slots: Iterable[str]) -> None:
    """Raise LimitExceeded if the group's sandbox cannot give a session these slots."""
    devices = sorted(set(slots) - {CPU, MEM})
    if gives_devices(group.sandbox) or not devices:
        return
    sentence = _("Sessions of the resource group “{group}” run in {sandbox}, which cannot give them accelerators ({slots}).").format(group=group.name, sandbox=SANDBOX_NAMES[group.sandbox], slots=", ".join(devices))  # fmt: skip
    hint = _("Ask for none, or choose another resource group.")
    raise LimitExceeded(sentence, hint=hint, fields={"resources": [paragraph([sentence, hint])]})


def check_group_rules(group: ResourceGroup, request: SessionRequest) -> None:
    """Raise InvalidInput for an excluded type, LimitExceeded above the group's limits per session and for
    accelerators that its sandbox cannot give.
    """
    check_session_type(group, request.type)
    check_sandbox(group, request.total_slots)
    most_of = max_slots_per_session(group, request.type)
    sentences = [
        _("In the resource group “{group}” one session gets at most {amount}.").format(
            group=group.name, amount=format_amount(name, most)
        )
        for name, most in sorted(most_of.items())
        if request.total_slots[name] > most
    ]
    if sentences:
        raise LimitExceeded(
            paragraph(sentences),
            hint=_("Ask for less, or choose another resource group."),
            fields={"resources": sentences},
        )
    if group.max_lifetime_s and (request.timeout_s or 0) > group.max_lifetime_s:
        sentence = _("In the resource group “{group}” a session runs for at most {span}.").format(
            group=group.name, span=format_duration(group.max_lifetime_s)
        )
        raise LimitExceeded(
            sentence,
            hint=_("Ask for less, or choose another resource group."),
            fields={"timeout_s": [sentence]},
        )


def max_slots_per_session(group: ResourceGroup, session_type: str) -> dict[str, int]:
    """Return the maximum amount by slot that one session may request.

    Includes the group's permanent limits per user and in total.
    """
    most: dict[str, int] = dict(group.max_session_slots)
    for limit in parse_limits(group.limits):
        if limit.hours is None and limit.counts(session_type):
            for name, amount in (*limit.together.items(), *limit.each.items()):
                most[name] = min(amount, most.get(name, amount))
    return most


def admits_request(group: ResourceGroup, request: SessionRequest) -> bool:
    try:
        check_group_rules(group, request)
    except (InvalidInput, LimitExceeded):
        return False
    return True


def is_open_to_all(group: ResourceGroup) -> bool:
    return group.is_public and set(group.session_types) >= set(SessionType.values)


def refused_by(group: ResourceGroup) -> Q:
    """Return the condition for sessions that the group does not admit now.

    Same rules as `access_resource_group` and `check_type_taken`.
    """
    is_refused = ~Q(type__in=group.session_types)
    if group.is_public:
        return is_refused
    theirs = GroupGrant.objects.filter(group=group).filter(
        Q(user_id=OuterRef("owner_id"))
        | Q(domain_id=OuterRef("domain_id"))
        | Q(project_id=OuterRef("project_id"))
    )
    return is_refused | (~Exists(theirs) & ~Q(owner__role=Role.SUPERADMIN))


def is_refused_by_group(session: ComputeSession) -> bool:
    """Return True if the session's group does not admit it now.

    One query at most if the group was read.
    """
    group = session.resource_group
    theirs = ComputeSession.objects.filter(refused_by(group), pk=session.pk)
    return not is_open_to_all(group) and theirs.exists()


def group_label(group: ResourceGroup) -> str:
    """Return the group's name for a choice; the group must have come `with_agent_counts`."""
    if not group.agent_count:  # type: ignore[attr-defined]
        return _("{group} (has no machines)").format(group=group.name)
    return group.name if group.is_active else _("{group} (paused)").format(group=group.name)
