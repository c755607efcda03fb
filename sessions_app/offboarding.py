"""Ends a leaving user's sessions, and reports live sessions that block closing a project or domain."""

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext_noop, ngettext

from accounts.models import Domain, OffBoarding, Project, User
from accounts.ports import OwnedItem
from accounts.tenancy.owned_resources import Owner
from common.actors import Actor
from common.values.stored_message import StoredMessage
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.termination.service import terminate_locked

NAME, LABEL = "sessions", gettext_noop("session “{name}”")
SHOWN = 3


def items(user: User) -> Sequence[OwnedItem]:
    rows = ComputeSession.objects.live().filter(owner=user).order_by("created_at")
    return [OwnedItem(str(pk), name) for pk, name in rows.values_list("pk", "name")]


def resolve_item(case: OffBoarding, item_id: str, actor: Actor) -> StoredMessage | None:
    with transaction.atomic():
        session = ComputeSession.objects.select_for_update().get(pk=item_id)
        if session.is_live:
            session = terminate_locked(session, actor=actor)
    return None if session.is_live else StoredMessage(gettext_noop("Has ended."))


def objection(owner: Project | Domain) -> str:
    live = _sessions_of(owner).live()
    names = ", ".join(
        f"“{name}”" for name in live.order_by("created_at").values_list("name", flat=True)[:SHOWN]
    )
    count = live.count() if names else 0
    return (
        ngettext(
            "{count} session is live there: {names}.", "{count} sessions are live there: {names}.", count
        ).format(count=count, names=names + (" …" if count > SHOWN else ""))
        if count
        else ""
    )


def history(owner: Owner) -> str:
    count = _sessions_of(owner).count()
    return ngettext("{count} session", "{count} sessions", count).format(count=count) if count else ""


def _sessions_of(owner: Owner) -> ComputeSessionQuerySet:
    field = {User: "owner", Project: "project", Domain: "domain"}[type(owner)]
    sessions: ComputeSessionQuerySet = ComputeSession.objects.filter(**{field: owner})
    return sessions
