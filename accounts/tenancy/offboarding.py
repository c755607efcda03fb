"""Offboarding: closes, reopens and purges users, and resolves the resources they leave.

One transaction closes the account, ends logins, tokens, links and memberships, and lists the
resources that other apps keep for the user (`accounts.tenancy.owned_resources`). These are resolved
one by one afterwards, and each result is saved at once, so an interrupted offboarding is continued
by the next run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from django.db import transaction
from django.db.models import CASCADE, ForeignObjectRel
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.core.authorization import Action
from accounts.core.roles import Role
from accounts.logins.service import end_logins
from accounts.logins.trusted_devices import forget_devices
from accounts.models import KeyPair, OffBoarding, SignInLink, SshKey, User
from accounts.ports import offboarding_handlers
from accounts.selectors import access_user
from accounts.tenancy import owned_resources
from accounts.tenancy.service import grant_project_permissions, lock_user, require_another_superadmin
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import BerthError, Conflict, InvalidInput
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import StoredMessage

log = structlog.get_logger(__name__)

ACCOUNT_STEP = "accounts"
Folders = OffBoarding.Folders
_ANONYMISED_FIELDS = ("email", "name", "role", "purged_at", "policy", "language", "allowed_networks")


@transaction.atomic
def close_user(
    *, actor: Actor, user_id: int, folders: Folders = Folders.KEEP, new_owner: User | None = None
) -> OffBoarding:
    """Close an account and start its offboarding. For a closed account starts anew, possibly with
    another choice for the folders; an unfinished offboarding is returned unchanged.

    Raises NotFound, PermissionDenied, InvalidInput (new owner), Conflict (oneself, the last
    superadmin).
    """
    if user_id == actor.user_id:
        raise Conflict(_("You cannot close your own account."), hint=_("Ask another administrator to do it."))
    people = lock_user(actor, user_id, Action.CLOSE, new_owner.pk if new_owner else 0)
    user = access_user(actor, user_id, Action.CLOSE)
    if user.is_superuser:
        require_another_superadmin(people, user)
    new_owner = _check_new_owner(user, people.get(new_owner.pk) if new_owner else None, folders)
    under_way = OffBoarding.objects.filter(user=user, finished_at=None).first()
    if under_way is not None:
        return under_way

    case = OffBoarding.objects.create(
        user=user,
        asked_by=people.get(actor.user_id or 0),
        folders=folders,
        heir=new_owner,
        items=[*_end_access(user), *_new_items(user, known=())],
    )
    changes = {"folders": folders.value, "heir": new_owner.email if new_owner else ""}
    audit_log.record(actor=actor, action="accounts.close_user", target=user, changes=changes)
    enqueue_on_commit(TaskName.CONTINUE_OFFBOARDINGS)
    return case


@transaction.atomic
def reopen_user(*, actor: Actor, user_id: int) -> User:
    """Reopen an account; logins, tokens and memberships are not restored. Resources not resolved
    yet stay with the user.
    """
    lock_user(actor, user_id, Action.CLOSE)
    user = access_user(actor, user_id, Action.CLOSE)
    for case in OffBoarding.objects.select_for_update().filter(user=user, finished_at=None):
        stays = StoredMessage(gettext_noop("Stays, because the account was opened again."))
        case.items = [item if item["is_done"] else _resolved_item(item, stays) for item in case.items]
        case.finished_at = clock.now()
        case.save(update_fields=["items", "finished_at"])
    if not user.is_active:
        user.is_active = True
        user.save(update_fields=["is_active"])
        audit_log.record(actor=actor, action="accounts.reopen_user", target=user)
    return user


@transaction.atomic
def purge_user(*, actor: Actor, user_id: int) -> None:
    """Delete a closed account. If history refers to it, an anonymised row without references to
    deletable objects stays. Raises NotFound, PermissionDenied, Conflict (open, or resources left).
    """
    lock_user(actor, user_id, Action.PURGE)
    user = access_user(actor, user_id, Action.PURGE)
    if user.is_active:
        raise Conflict(_("The account of {name} is open.").format(name=user.email), hint=_("Close it first."))
    if ties := owned_resources.blocking_resources(user):
        raise Conflict(
            _("{name} still has: {what}.").format(name=user.email, what=ties),
            hint=_("Close the account again, and say what shall happen to the folders."),
        )

    audit_log.record(actor=actor, action="accounts.purge_user", target=user)
    if owned_resources.retention_reasons(user):
        _anonymise(user)
    else:
        user.delete()


def continue_offboardings() -> None:
    """Continue each unfinished offboarding. Safe to run concurrently; a failure does not stop others."""
    for case_id in OffBoarding.objects.filter(finished_at=None).values_list("pk", flat=True):
        with try_exclusive(f"offboarding:{case_id}") as is_mine:
            try:
                if is_mine:
                    continue_offboarding(case_id)
            except Exception:  # the next run tries again
                log.exception("offboarding.failed", case_id=case_id)


def continue_offboarding(case_id: int) -> OffBoarding:
    """Resolve the items of one offboarding that can be resolved now."""
    case = OffBoarding.objects.select_related("user", "asked_by", "heir").get(pk=case_id)
    actor = _system_actor(case.asked_by)
    handlers = {handler.NAME: handler for handler in offboarding_handlers.get()}
    case.items += _new_items(case.user, known={(item["step"], item["id"]) for item in case.items})
    for index, item in enumerate(case.items):
        if item["is_done"] or item["step"] not in handlers:
            continue
        try:
            settled = handlers[item["step"]].resolve_item(case, item["id"], actor)
        except BerthError as refusal:
            log.warning("offboarding.later", case_id=case_id, item=item["id"], error=refusal.message)
            settled = None
        if settled is not None:
            case.items[index] = _resolved_item(item, settled)
            if not _save_progress(case):
                return case
    if all(item["is_done"] for item in case.items):
        case.finished_at = clock.now()
        _save_progress(case)
        log.info("offboarding.finished", case_id=case_id, user_id=case.user_id)
    return case


def offboarding_report(case: OffBoarding) -> list[dict[str, Any]]:
    """Return the report as [{"name", "is_done", "sentence"}] in the reader's language."""
    return [
        {
            "name": owned_resources.item_label(item["step"], item["name"]),
            "is_done": item["is_done"],
            "sentence": str(StoredMessage(item["text"], item["arguments"])) if item["text"] else "",
        }
        for item in case.items
    ]


def _save_progress(case: OffBoarding) -> bool:
    """Save the progress; False if the account was reopened meanwhile."""
    changes = {"items": case.items, "finished_at": case.finished_at}
    return bool(OffBoarding.objects.filter(pk=case.pk, finished_at=None).update(**changes))


def _check_new_owner(user: User, new_owner: User | None, folders: Folders) -> User | None:
    if folders is not Folders.HAND_OVER:
        return None
    if (
        new_owner is None
        or not new_owner.is_active
        or new_owner.domain_id != user.domain_id
        or new_owner.pk == user.pk
    ):
        sentence = _("Name somebody else of the same domain, with an open account, who gets the folders.")
        raise InvalidInput.at("heir", sentence)
    return new_owner


def _end_access(user: User) -> list[dict[str, Any]]:
    """Close the account and delete all credentials and memberships, so that reopening restores
    none. Returns the done items.
    """
    user.is_active = False
    user.save(update_fields=["is_active"])
    logins = end_logins(user.pk)
    forget_devices(user.pk)
    ssh_keys = SshKey.objects.filter(user=user).delete()[0]  # before tokens, which delete their own keys
    tokens = KeyPair.objects.filter(user=user).delete()[1].get("accounts.KeyPair", 0)
    SignInLink.objects.filter(user=user).delete()
    projects = list(user.projects.values_list("name", flat=True))
    for membership in user.memberships.all():
        membership.delete()
    grant_project_permissions(user)
    ended = [
        ("logins", StoredMessage(gettext_noop("Signed out everywhere; logins: {count}."), {"count": logins})),
        ("tokens", StoredMessage(gettext_noop("API tokens revoked: {count}."), {"count": tokens})),
        ("ssh_keys", StoredMessage(gettext_noop("SSH keys removed: {count}."), {"count": ssh_keys})),
    ]
    ended += [
        (f"project:{name}", StoredMessage(gettext_noop("Taken out of the project “{name}”."), {"name": name}))
        for name in projects
    ]
    return [
        _resolved_item({"step": ACCOUNT_STEP, "id": name, "name": ""}, sentence) for name, sentence in ended
    ]


def _new_items(user: User, *, known: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return new items for resources that are not in the list yet."""
    seen = set(known)
    return [
        {
            "step": handler.NAME,
            "id": item.id,
            "name": item.name,
            "is_done": False,
            "text": "",
            "arguments": {},
        }
        for handler, item in owned_resources.owned_items(user)
        if (handler.NAME, item.id) not in seen
    ]


def _resolved_item(item: Mapping[str, Any], sentence: StoredMessage) -> dict[str, Any]:
    return {**item, "is_done": True, "text": sentence.text, "arguments": dict(sentence.arguments)}


def _system_actor(person: User | None) -> Actor:
    """Return the system as actor with the requesting user's identity. It finishes what the user was
    allowed to start, even if the user has lost the permission.
    """
    if person is None:
        return SYSTEM
    return Actor(kind=ActorKind.SYSTEM, user_id=person.pk, label=person.email, domain_id=person.domain_id)


def _anonymise(user: User) -> None:
    for relation in user._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and relation.on_delete is CASCADE:
            relation.related_model._base_manager.filter(**{relation.field.name: user}).delete()
    user.email, user.name, user.role = f"purged-{user.pk}@purged.invalid", "", Role.USER.value
    user.purged_at, user.last_login = clock.now(), None
    user.policy, user.language, user.allowed_networks = None, "", []
    user.set_unusable_password()
    user.save(update_fields=[*_ANONYMISED_FIELDS, "last_login", "password"])
