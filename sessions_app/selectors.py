"""Reads sessions. `visible_sessions` is the only list source, `access_session` the only fetch."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.core.limits import Level
from accounts.logins.service import has_active_membership
from accounts.selectors import administered_project_ids, overseen_domain_ids, sees_everything
from common.actors import Actor
from common.errors import Conflict, NotFound, PermissionDenied
from common.pages.status_styles import status_style
from common.values.text import quoted
from sessions_app.core.states import REQUEUED, RETRIED, Reason, Status, requeue_reason
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, Kernel, KernelAllocation, SessionArray
from vfolders.ports import FolderUse

FOLDER_USES = 10


class Action(StrEnum):
    """Action on a session that needs permission."""

    VIEW = "view"
    READ_LOGS = "read_logs"
    TERMINATE = "terminate"
    EXTEND = "extend"
    OPEN_APP = "open_app"
    OPEN_TERMINAL = "open_terminal"


# Administrators may view and stop; only the owner may enter. Logs may contain users' work, so
# monitors may not read them.
ADMIN_ACTIONS = frozenset({Action.VIEW, Action.READ_LOGS, Action.TERMINATE, Action.EXTEND})
MONITOR_ACTIONS = frozenset({Action.VIEW})


def visible_sessions(actor: Actor) -> ComputeSessionQuerySet:
    """Return the sessions that the actor may see.

    Own sessions; those of administered projects; all of the domain for its admin and monitor; all
    for superadmins.
    """
    sessions: ComputeSessionQuerySet = ComputeSession.objects.filter(visible_to(actor))
    return sessions


def visible_to(actor: Actor) -> Q:
    """Return the condition for sessions and arrays that the actor may see."""
    if sees_everything(actor):
        return Q()
    return (
        Q(owner_id=actor.user_id)
        | Q(project_id__in=administered_project_ids(actor))
        | Q(domain_id__in=overseen_domain_ids(actor))
    )


def may(actor: Actor, session: ComputeSession | SessionArray, action: Action) -> bool:
    """Return True if an actor who may see the session or array may do this. No query."""
    if session.owner_id == actor.user_id or actor.is_system:
        return True
    return action in (MONITOR_ACTIONS if actor.is_read_only else ADMIN_ACTIONS)


def access_session(actor: Actor, session_id: UUID, action: Action) -> ComputeSession:
    """Return the session with its containers, in 2 queries.

    Raises NotFound (absent or hidden), PermissionDenied (visible, not allowed).
    """
    stands = has_active_membership("owner_id", "project_id")
    sessions = visible_sessions(actor).with_kernels().annotate(owner_stands=stands)
    session = sessions.filter(pk=session_id).first()
    if session is None:
        raise NotFound(_("There is no such session among yours."))
    if not may(actor, session, action):
        raise PermissionDenied(
            _("The session “{session}” belongs to {owner}; only its owner may be inside.").format(
                session=session.name, owner=session.owner.email
            ),
            hint=_("You may look at it from outside.")
            if actor.is_read_only
            else _("You may see it, read its log and stop it."),
        )
    is_inside = action not in ADMIN_ACTIONS and not actor.is_system
    if is_inside and not session.owner_stands:
        raise PermissionDenied(
            _(
                "You are not a member of the project {project} any more, so you cannot enter its sessions."
            ).format(project=session.project),
            hint=_(
                "Ask an administrator of the domain to add you to the project. You may still stop the session."
            ),
        )
    return session


def own_sessions(actor: Actor) -> ComputeSessionQuerySet:
    return ComputeSession.objects.filter(owner_id=actor.user_id)


def session_by_host_label(host_label: str) -> ComputeSession | None:
    """Return the session of an app host, without access checks, for the gateway before sign-in."""
    return ComputeSession.objects.select_related("image").filter(host_label=host_label).first()


def find_kernel(session: ComputeSession, name: str = "main1") -> Kernel:
    """Return the kernel called `name`. Raises NotFound."""
    for kernel in session.kernels.all():
        if kernel.name == name:
            return kernel
    sentence = _("The session “{session}” has no container called {name}.")
    raise NotFound(sentence.format(session=session.name, name=quoted(name)))


def running_kernel(session: ComputeSession, name: str = "main1") -> Kernel:
    """Return the kernel called `name` of a running session. Raises NotFound, Conflict if not running."""
    kernel = find_kernel(session, name)
    if not session.is_running or kernel.agent is None:
        raise not_running(session, hint=_("Wait until it runs, or start another one."))
    if kernel.ended_at is not None:
        sentence = _("The container {name} of “{session}” has ended; the session goes on without it.")
        raise Conflict(sentence.format(name=kernel.name, session=session.name))
    return kernel


def not_running(session: ComputeSession, *, hint: str = "") -> Conflict:
    """Return the error for a session that would have to be running."""
    sentence = _("The session “{session}” is {status}; this needs a running one.")
    status = status_style(session.status).label.lower()
    return Conflict(sentence.format(session=session.name, status=status), hint=hint)


def uses_of_folder(folder_id: UUID) -> list[FolderUse]:
    """Return the first live sessions that mount this folder. Used by vfolders."""
    users = ComputeSession.objects.live().filter(mounts__folder_id=folder_id).order_by("pk").distinct()
    return [
        FolderUse(str(pk), name, reverse("session-detail", args=[pk]))
        for pk, name in users.values_list("pk", "name")[:FOLDER_USES]
    ]


def is_stoppable(session: ComputeSession) -> bool:
    """Return True if a stop has an effect: the session is live, and if terminating may be retried."""
    if session.status != Status.TERMINATING:
        return session.is_live
    return next_attempt_reason(session) is not None


def next_attempt_reason(session: ComputeSession) -> Reason | None:
    """Return the reason to queue a TERMINATING session again; None if it ends."""
    return requeue_reason(
        session.outcome_reason,
        has_retries=session.retry_count < session.max_retries,
        requeues=session.requeues,
        may_change_devices=session.may_change_devices,
    )


def sessions_due_to_stop(now: datetime) -> ComputeSessionQuerySet:
    """Return stoppable sessions whose scheduled stop is due (`termination/delayed_stop.py`)."""
    retried = Q(outcome_reason__in=RETRIED, max_retries__gt=F("retry_count"))
    requeued = Q(outcome_reason__in=REQUEUED, requeues=True) | Q(
        outcome_reason=Reason.DEVICE_UNAVAILABLE, may_change_devices=True
    )
    is_ending = Q(status=Status.TERMINATING)
    return ComputeSession.objects.live().filter(~is_ending | retried | requeued, stops_at__lte=now)


def sessions_past_deadline(now: datetime) -> ComputeSessionQuerySet:
    return ComputeSession.objects.live().filter(deadline_at__lte=now)


def allocations_by_owner(level: Level, ids: Sequence[int]) -> QuerySet[Any]:
    """Return the allocations of the sessions of these projects or users, annotated with `owner_id`."""
    column = "kernel__session__project_id" if level is Level.PROJECT else "kernel__session__owner_id"
    return KernelAllocation.objects.filter(**{f"{column}__in": ids}).annotate(owner_id=F(column))
