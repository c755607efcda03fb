"""Shares folders: invitations, their answers, changes and ends of rights.

Whoever loses a right loses it with the commit: every read and every piece of a transfer asks the
shares. Sessions that mount the folder keep it until they end (`end_sessions_without_right`).
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.models import Project, User
from accounts.selectors import user_actor
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.connection import constraint_of
from common.errors import BerthError, Conflict, InvalidInput, NotFound
from common.messaging.events import publish
from common.values.text import normalised, quoted
from vfolders import lifecycle
from vfolders.core.permissions import OWNERSHIP, RIGHT_TITLES, Action, Right
from vfolders.core.states import FolderState
from vfolders.events import ShareNews, SharingChanged
from vfolders.models import FolderShare, VFolder
from vfolders.ports import MountingSession, folder_sessions
from vfolders.quotas.selectors import lock_limited_host
from vfolders.selectors import NOBODY, access_folder
from vfolders.sharing.selectors import access_invitation, access_share, sessions_without_right
from vfolders.sharing.transfer import give_folder

DEFAULT_ANSWER_DAYS, MOST_ANSWER_DAYS = 14, 90
MOST_DAYS = 3650
MOST_SHARES = 200  # of one folder, with open invitations
REMOVED_AT_ONCE = 1000


def share_folder(
    *,
    actor: Actor,
    folder_id: UUID,
    right: str,
    person: str = "",
    project: str = "",
    expires_at: datetime | None = None,
    answer_days: int = DEFAULT_ANSWER_DAYS,
) -> FolderShare:
    """Invite a person, by e-mail address or name, or share with a project at once.

    The right OWNERSHIP offers the folder to the person. Raises InvalidInput, NotFound (nobody in the
    folder's domain), PermissionDenied, Conflict (shared already, or it is the owner).
    """
    is_offer = right == OWNERSHIP
    folder = access_folder(actor, folder_id, Action.MANAGE if is_offer else Action.SHARE)
    if bool(person.strip()) == bool(project.strip()):
        raise InvalidInput.at("person", _("Name either a person or a project."))
    if is_offer and (project or folder.owner_id is None):
        raise InvalidInput.at("right", _("Only a personal folder can get a new owner, and only a person."))
    _check_days(answer_days, "answer_days", MOST_ANSWER_DAYS)
    _check_expiry(expires_at)
    share = FolderShare(folder=folder, right=right, inviter_id=actor.user_id, expires_at=expires_at)
    if project:
        share.project, share.accepted_at = _find_project(folder, project), clock.now()
    else:
        share.user = _find_person(actor, folder, person)
        share.answer_by = clock.now() + timedelta(days=answer_days)

    try:
        with transaction.atomic():
            locked = _lock_folder(folder_id)
            if locked.shares.count() >= MOST_SHARES:
                raise Conflict(
                    _("A folder is shared with at most {most} people and projects.").format(most=MOST_SHARES),
                    hint=_("Share it with a project instead."),
                )
            access_folder(actor, folder_id, Action.MANAGE if is_offer else Action.SHARE)
            share.save(force_insert=True)
            audit_log.record(
                actor=actor, action="vfolders.share_folder", target=folder, changes=_facts(share)
            )
            if share.user_id is not None:
                _tell(share, share.user_id, ShareNews.OFFERED if is_offer else ShareNews.INVITED, actor)
            lifecycle.push_folder_change(folder, also=_people(share))
    except IntegrityError as error:
        raise _refusal(share, constraint_of(error)) from error
    return share


@transaction.atomic
def change_share(
    *,
    actor: Actor,
    folder_id: UUID,
    share_id: UUID,
    right: str | None = None,
    expires_at: datetime | None = None,
    is_endless: bool = False,
) -> FolderShare:
    """Change the right of a share or invitation, or its end (`is_endless`: none). None: as before.
    Raises InvalidInput, NotFound, PermissionDenied, Conflict (it is an offer).
    """
    access_share(actor, folder_id, share_id)
    _check_expiry(expires_at)
    precede_admissions()
    _lock_folder(folder_id)
    share = access_share(actor, folder_id, share_id)
    if share.is_offer:
        raise Conflict(_("An offer to become the owner has no right to change. Withdraw it instead."))
    before = _facts(share)
    share.right = right or share.right
    share.expires_at = None if is_endless else expires_at or share.expires_at
    if before == _facts(share):
        return share
    share.save(update_fields=["right", "expires_at"])
    changes = _facts(share) | {"right": [before["right"], share.right]}
    audit_log.record(actor=actor, action="vfolders.change_share", target=share.folder, changes=changes)
    if share.user_id is not None:
        _tell(share, share.user_id, ShareNews.CHANGED, actor)
    lifecycle.push_folder_change(share.folder, also=_people(share))
    return share


@transaction.atomic
def revoke_share(*, actor: Actor, folder_id: UUID, share_id: UUID) -> None:
    """Take back a share, or withdraw an invitation or offer. Raises NotFound, PermissionDenied.

    `sessions_without_right` returns the sessions that go on with the folder.
    """
    access_share(actor, folder_id, share_id)
    precede_admissions()
    _lock_folder(folder_id)
    share = access_share(actor, folder_id, share_id)
    _remove(share, actor, "vfolders.revoke_share")
    if share.user_id is not None:
        _tell(share, share.user_id, ShareNews.REVOKED, actor)


@transaction.atomic
def leave_folder(*, actor: Actor, folder_id: UUID) -> None:
    """Give back the actor's own share. Raises NotFound, Conflict (the right comes from elsewhere)."""
    folder = access_folder(actor, folder_id, Action.VIEW)
    precede_admissions()
    _lock_folder(folder_id)
    share = folder.shares.filter(user_id=actor.user_id or NOBODY).exclude(accepted_at=None).first()
    if share is None:
        raise Conflict(
            _("The folder “{folder}” is not shared with you as a person, so you cannot leave it.").format(
                folder=folder.name
            ),
            hint=_("It is yours, or comes with a project or a role that you have."),
        )
    share.folder = folder
    _remove(share, actor, "vfolders.leave_folder")
    if folder.owner_id is not None:
        _tell(share, folder.owner_id, ShareNews.LEFT, actor)


@transaction.atomic
def accept_share(*, actor: Actor, share_id: UUID) -> VFolder:
    """Accept an invitation or offer and return the folder; a repeat changes nothing.

    Raises NotFound (withdrawn, or for another person), Conflict (expired, or the inviter may not share
    the folder any more), LimitExceeded (an offer that exceeds the actor's limits).
    """
    invitation = access_invitation(actor, share_id)
    if invitation.is_offer:
        precede_admissions()
        lock_limited_host(invitation.folder.host)
    _lock_folder(invitation.folder_id)
    share = access_invitation(actor, share_id)
    folder = share.folder
    if not share.is_open:
        return folder
    _check_inviter(share)
    former_id = folder.owner_id
    if share.is_offer:
        folder = give_folder(actor=actor, folder_id=folder.pk, heir=share.user, is_limited=True)  # type: ignore[arg-type]
    else:
        FolderShare.objects.filter(pk=share.pk).update(accepted_at=clock.now())
    audit_log.record(actor=actor, action="vfolders.accept_share", target=folder, changes=_facts(share))
    if share.inviter_id is not None and share.inviter_id != former_id:
        _tell(share, share.inviter_id, ShareNews.ACCEPTED, actor)
    if former_id is not None:
        _tell(share, former_id, ShareNews.TAKEN if share.is_offer else ShareNews.ACCEPTED, actor)
    lifecycle.push_folder_change(folder, also=_people(share))
    return folder


@transaction.atomic
def decline_share(*, actor: Actor, share_id: UUID) -> None:
    """Decline an invitation or offer. Raises NotFound, Conflict (expired, or accepted already)."""
    invitation = access_invitation(actor, share_id)
    _lock_folder(invitation.folder_id)
    share = access_invitation(actor, share_id)
    if not share.is_open:
        raise Conflict(_("You have accepted this invitation already."), hint=_("Leave the folder instead."))
    _remove(share, actor, "vfolders.decline_share")
    if share.inviter_id is not None:
        _tell(share, share.inviter_id, ShareNews.DECLINED, actor)


def end_sessions_without_right(*, actor: Actor, folder_id: UUID, session_ids: Collection[UUID]) -> int:
    """End those of these sessions that mount the folder without a right, or for writing with a right to
    read; return their number. Raises NotFound, PermissionDenied.
    """
    folder = access_folder(actor, folder_id, Action.SHARE)
    found: list[MountingSession] = sessions_without_right(folder, among=session_ids)
    names = [f"{session.name} ({session.owner})" for session in found]
    audit_log.record(
        actor=actor, action="vfolders.end_sessions_without_right", target=folder, changes={"sessions": names}
    )
    for session in found:
        folder_sessions.get().end(session.id, actor=actor)
    return len(found)


def remove_ended_shares() -> int:
    """Remove expired shares and invitations, and those of people who left the domain; return their
    number. Safe to run at any time: reads do not count them anyway.
    """
    removed = 0
    for pk in list(_ended_shares().values_list("pk", flat=True)[:REMOVED_AT_ONCE]):
        with transaction.atomic():
            share = _ended_shares().select_for_update(of=("self",), skip_locked=True).filter(pk=pk).first()
            if share is not None:  # else it was accepted or extended at this moment
                _remove(share, SYSTEM, "vfolders.expire_share")
                removed += 1
    return removed


def _ended_shares() -> QuerySet[FolderShare]:
    now = clock.now()
    has_left = Q(user__isnull=False) & (~Q(user__domain=F("folder__domain")) | ~Q(user__purged_at=None))
    return FolderShare.objects.select_related("folder", "user", "project").filter(
        Q(expires_at__lte=now) | Q(accepted_at=None, answer_by__lte=now) | has_left
    )


def right_title(right: str) -> str:
    """Return the right of a share or invitation in words."""
    return _("Become the owner") if right == OWNERSHIP else _(RIGHT_TITLES[Right(right)])


def _remove(share: FolderShare, actor: Actor, action: str) -> None:
    audit_log.record(actor=actor, action=action, target=share.folder, changes=_facts(share))
    lifecycle.push_folder_change(share.folder, also=_people(share))
    FolderShare.objects.filter(pk=share.pk).delete()


def _lock_folder(folder_id: UUID) -> VFolder:
    """Lock the folder, which all changes of its shares do first, and admissions of mounts share.
    Raises NotFound if it is gone or being deleted.
    """
    folder = VFolder.objects.select_for_update().filter(pk=folder_id, state=FolderState.READY.value).first()
    if folder is None:
        raise NotFound(_("There is no such folder among yours."))
    return folder


def _find_person(actor: Actor, folder: VFolder, text: str) -> User:
    """Return the person with this address or name in the folder's domain. The refusal is the same
    for people of other domains and for nobody.
    """
    text = normalised(text.strip())
    people = User.objects.filter(domain_id=folder.domain_id, is_active=True)
    found = list(people.filter(email=text.lower()) if "@" in text else people.filter(name__iexact=text)[:2])
    if not found:
        sentence = _("Nobody in the domain “{domain}” is called {text}.").format(
            domain=folder.domain, text=quoted(text, 80)
        )
        hint = _(
            "Give the e-mail address of a person with an open account. Folders stay inside their domain."
        )
        raise NotFound.at("person", sentence, hint=hint)
    if len(found) > 1:
        sentence = _("Several people are called {text}. Give the e-mail address.").format(
            text=quoted(text, 80)
        )
        raise Conflict.at("person", sentence)
    if found[0].pk == actor.user_id:
        raise InvalidInput.at("person", _("You cannot share a folder with yourself."))
    return found[0]


def _find_project(folder: VFolder, name: str) -> Project:
    project = Project.objects.filter(domain_id=folder.domain_id, name=name.strip(), is_active=True).first()
    if project is None:
        sentence = _("There is no project {name} in the domain “{domain}”.").format(
            name=quoted(name, 64), domain=folder.domain
        )
        raise NotFound.at("project", sentence)
    return project


def _check_inviter(share: FolderShare) -> None:
    """Raise Conflict if the inviter could not invite any more."""
    try:
        if share.inviter is None or not share.inviter.is_active:
            raise NotFound("")
        action = Action.MANAGE if share.is_offer else Action.SHARE
        access_folder(user_actor(share.inviter), share.folder_id, action)
    except BerthError as error:
        raise Conflict(
            _("Whoever invited you may not share the folder “{folder}” any more.").format(
                folder=share.folder.name
            ),
            hint=_("Ask the owner of the folder to invite you."),
            code="invitation_void",
        ) from error


def _refusal(share: FolderShare, constraint: str) -> BerthError:
    field, name = ("project", share.project) if share.project else ("person", share.user)
    sentence = {
        "share_not_with_owner": _("The folder belongs to {name} already."),
        "share_once_with_user": _("{name} is invited or has a right already. Change that instead."),
        "share_once_with_project": _("The folder is shared with {name} already. Change that instead."),
        "share_one_offer_of_folder": _("The folder is offered to somebody already. Withdraw that first."),
        "share_in_domain": _("Folders are shared inside their domain only."),
    }.get(constraint, _("The folder cannot be shared with {name}."))
    return Conflict.at(field, sentence.format(name=name))


def _check_days(days: int, field: str, most: int) -> None:
    if not 1 <= days <= most:
        raise InvalidInput.at(field, _("Give 1 to {most} days.").format(most=most))


def _check_expiry(expires_at: datetime | None) -> None:
    if expires_at is None:
        return
    if expires_at <= clock.now():
        raise InvalidInput.at("expires_at", _("This time is over. Give one in the future."))
    if expires_at > clock.now() + timedelta(days=MOST_DAYS):
        raise InvalidInput.at("expires_at", _("Give a time within the next ten years, or none."))


def _facts(share: FolderShare) -> dict[str, object]:
    """Return what the audit log keeps of a share."""
    partner = (
        {"person": share.user.email} if share.user else {"project": share.project and share.project.name}
    )
    expires_at = share.expires_at and share.expires_at.isoformat(timespec="seconds")
    return {**partner, "right": share.right, "expires_at": expires_at}


def _tell(share: FolderShare, person_id: int, news: ShareNews, actor: Actor) -> None:
    if person_id != actor.user_id:
        publish(SharingChanged(person_id, news, share.pk, share.folder.name, actor.label))


def _people(share: FolderShare) -> list[int]:
    return [] if share.user_id is None else [share.user_id]
