"""Reads of folders and storage hosts.
`visible_folders` is the only list source of folders, `access_folder` the only single fetch.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import BitOr
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.core.allow_lists import AllowList, ScopeAllowList, refusing_lists
from accounts.core.limits import Scope
from accounts.core.roles import OVERSEERS_OF_ALL, OVERSEERS_OF_DOMAIN, ProjectRole
from accounts.models import Membership, User
from accounts.selectors import may_do_everything, overseen_domain_id, sees_everything
from common import clock
from common.actors import Actor
from common.errors import Conflict, NotFound, PermissionDenied
from common.values.text import quoted
from vfolders.core.host_rights import ALL_RIGHTS, HostRight, host_rights, permitted_actions
from vfolders.core.modes import FolderMode
from vfolders.core.mounts import FolderMount, path_mount, volume_mount
from vfolders.core.paths import EntryPath, display_name
from vfolders.core.permissions import RELATION_OF, SHARED, Action, Relation, Right, allowed_actions
from vfolders.core.states import FolderState
from vfolders.models import FolderShare, StorageGrant, StorageHost, VFolder
from vfolders.storage.base import EntryKind, StorageBackend, StorageUnavailable, WrongKind
from vfolders.storage.files import FolderFiles
from vfolders.storage.host_calls import HostCalls
from vfolders.storage.registry import open_storage

USABLE = frozenset({FolderState.READY})
TRASH = frozenset({FolderState.TRASHED})
LISTED = frozenset({FolderState.READY, FolderState.CLONING})
SHOWN = LISTED | TRASH
MOST_AUTOMATIC = 16
NOBODY = 0  # not a user id; None would match folders of projects, which have no owner


def visible_folders(actor: Actor) -> QuerySet[VFolder]:
    """Folders of the actor and the actor's projects, and those shared with either; all of the domain
    for its admins and monitors; all for superadmins. Neither clones under way nor trash.

    Each row carries what `actions_on` needs. One query, and one to find whether the actor oversees
    a domain.
    """
    return folders_in(actor, USABLE)


def trashed_folders(actor: Actor) -> QuerySet[VFolder]:
    """Folders in the trash that the actor may restore or delete for ever, the first to expire first."""
    return folders_in(actor, TRASH).filter(deletable_by(actor)).order_by("expires_at", "pk")


def deletable_by(actor: Actor) -> Q:
    """Return the condition of rows of `folders_in` that the actor has Action.DELETE on them."""
    person_id = actor.user_id or NOBODY
    allowed = (
        Q(owner_id=person_id) | Q(creator_id=person_id, is_member=True) | Q(shared_right=Right.DELETE.value)
    )
    if not actor.is_read_only:
        allowed |= Q(is_project_admin=True) | Q(is_overseen=True)
    return allowed


def folders_in(actor: Actor, states: Collection[FolderState]) -> QuerySet[VFolder]:
    """Return what `visible_folders` does, of folders in these states."""
    person_id = actor.user_id or NOBODY
    memberships = Membership.objects.filter(
        project_id=OuterRef("project_id"), project__is_active=True, user_id=person_id
    )
    shares = effective_shares(actor).filter(folder_id=OuterRef("pk"))
    overseen = Q(domain__isnull=False) if sees_everything(actor) else Q(domain_id=overseen_domain_id(actor))
    return (
        VFolder.objects.filter(state__in=states)
        .select_related("owner", "project", "domain", "host", "clone", "trashed_by")
        .annotate(
            is_member=Exists(memberships),
            is_project_admin=Exists(memberships.filter(role=ProjectRole.ADMIN.value)),
            shared_right=Subquery(shares.order_by(_MOST_FIRST).values("right")[:1]),
            is_overseen=ExpressionWrapper(overseen, output_field=BooleanField()),
            granted_rights=Subquery(_granted_rights(actor)),
        )
        .filter(Q(owner_id=person_id) | Q(is_member=True) | Q(is_overseen=True) | shared_with(actor))
    )


# Of several shares the one that gives most decides.
_MOST_FIRST = Case(*(When(right=right.value, then=Value(rank)) for rank, right in enumerate(Right))).desc()


def effective_shares(actor: Actor) -> QuerySet[FolderShare]:
    """Shares with the actor, or with an active project of the actor, that are accepted and have not
    expired, within the actor's domain.
    """
    person_id = actor.user_id or NOBODY
    memberships = Membership.objects.filter(user_id=person_id, project__is_active=True)
    return _living_shares().filter(
        Q(user_id=person_id) | Q(project_id__in=memberships.values("project_id")),
        folder__domain_id=actor.domain_id or NOBODY,
    )


def _living_shares() -> QuerySet[FolderShare]:
    has_time = Q(expires_at=None) | Q(expires_at__gt=clock.now())
    return FolderShare.objects.filter(has_time, accepted_at__isnull=False)


def shared_with(actor: Actor) -> Q:
    """Return the condition that a folder is shared with the actor or a project of the actor."""
    return Q(pk__in=effective_shares(actor).values("folder_id"))


def own_folders(actor: Actor) -> QuerySet[VFolder]:
    """Folders that the actor works with: own ones, those of the actor's projects, and shared ones."""
    return visible_folders(actor).filter(
        Q(owner_id=actor.user_id or NOBODY) | Q(is_member=True) | shared_with(actor)
    )


def actions_on(actor: Actor, folder: VFolder) -> frozenset[Action]:
    """Return the actions that the actor may take on a folder from `visible_folders`: those of the actor's
    relations to it, as far as the rights on its host permit. No query.
    """
    relations = frozenset(_relations(actor, folder))
    actions = allowed_actions(relations)
    if relations & _UNBOUND:
        return actions
    granted = folder.granted_rights or 0  # type: ignore[attr-defined]  # annotated by folders_in
    rights = host_rights(is_restricted=folder.host.is_restricted, granted=[granted])
    return permitted_actions(actions, rights)


# Administrators are not bound by the rights on hosts.
_UNBOUND = frozenset({Relation.GOVERNOR, Relation.MONITOR})


def _granted_rights(actor: Actor) -> QuerySet[StorageGrant, Any]:
    """The rights granted on the host of a folder to its domain, its project and the actor's policy, in one
    row; none without a grant.
    """
    own_policy = User.objects.filter(pk=actor.user_id or NOBODY).values("policy_id")
    grants = StorageGrant.objects.filter(
        Q(domain_id=OuterRef("domain_id"))
        | Q(project_id=OuterRef("project_id"))
        | Q(policy_id__in=own_policy),
        host_id=OuterRef("host_id"),
    )
    return grants.order_by().values("host_id").annotate(sum=BitOr("rights")).values("sum")


def check_creation(actor: Actor, folder: VFolder) -> None:
    """Raise PermissionDenied if the actor may not create such a folder on its host. At most one query."""
    host = folder.host
    if not host.is_restricted or may_do_everything(actor):
        return
    holders = Q(domain_id=folder.domain_id) | Q(policy__users=actor.user_id or NOBODY)
    if folder.project_id is not None:
        holders |= Q(project_id=folder.project_id)
    granted = StorageGrant.objects.filter(holders, host=host).values_list("rights", flat=True)
    if HostRight.CREATE not in host_rights(is_restricted=True, granted=granted):
        raise PermissionDenied(
            _("You may not create folders on the storage host “{host}”.").format(host=host.name),
            hint=_("Choose another host, or ask an administrator."),
        )


def administers(actor: Actor, folder: VFolder) -> bool:
    """Return True if the actor is an administrator of the folder's project or domain, or a superadmin.
    The folder is from `folders_in`. No query.
    """
    return not {Relation.PROJECT_ADMIN, Relation.GOVERNOR}.isdisjoint(_relations(actor, folder))


def access_folder(
    actor: Actor, folder_id: UUID, action: Action, *, states: Collection[FolderState] = USABLE
) -> VFolder:
    """Return the folder if the actor may take this action and it is in one of `states`. Raises NotFound
    (absent, hidden or in another state), PermissionDenied (visible, but not allowed).

    A folder in the trash is hidden from those who may not delete it.
    """
    folder = folders_in(actor, states).filter(pk=folder_id).first()
    is_trashed = folder is not None and folder.state == FolderState.TRASHED
    if folder is not None and is_trashed and Action.DELETE not in actions_on(actor, folder):
        folder = None
    return _allowed(actor, folder, action)


def _allowed(actor: Actor, folder: VFolder | None, action: Action) -> VFolder:
    if folder is None:
        raise NotFound(_("There is no such folder among yours."))
    allowed = actions_on(actor, folder)
    if action not in allowed:
        hint = _("Ask an administrator of its project.") if folder.project else _("Ask its owner.")
        if action is Action.MOUNT and Action.MOUNT_READONLY in allowed:
            hint = _("You may read it: mount it read-only.")
        raise PermissionDenied(_(_REFUSALS[action]).format(folder=folder.name), hint=hint)
    return folder


def has_automatic_folders(actor: Actor) -> Exists:
    """Return the condition that folders of the actor are mounted in all sessions, for another query."""
    return Exists(VFolder.objects.filter(_automatic_for(actor), state__in=USABLE))


def automatic_folders(actor: Actor, candidates: Sequence[VFolder]) -> list[VFolder]:
    """Return those of the candidates that are mounted in all sessions of the actor, by name; at most
    MOST_AUTOMATIC. No query.
    """
    own = [each for each in candidates if is_automatic_for(actor, each)]
    return sorted(own, key=lambda folder: folder.name)[:MOST_AUTOMATIC]


def _automatic_for(actor: Actor) -> Q:
    return Q(owner_id=actor.user_id or NOBODY, mode=FolderMode.AUTO_MOUNT.value)


def is_automatic_for(actor: Actor, folder: VFolder) -> bool:
    """Return True if the folder is mounted in all sessions of the actor. No query."""
    return folder.mode == FolderMode.AUTO_MOUNT and folder.owner_id == actor.user_id


def check_directory(folder: VFolder, path: EntryPath) -> None:
    """Check that the path in the folder leads to a directory, over no link. Raises EntryMissing,
    WrongKind, StorageUnavailable.
    """
    if files_of(folder).stat(path).kind is not EntryKind.DIRECTORY:
        raise WrongKind(
            _("“{name}” is no directory of the folder; links are not followed here.").format(
                name=display_name("/".join(path))
            )
        )


def mountable_candidates(
    actor: Actor, references: Sequence[str], *, with_automatic: bool = False
) -> list[VFolder]:
    """Return the visible folders with one of these ids or names, own ones first, for
    `access_mountable_folder`; and, if asked for, those for `automatic_folders`. At most 2 queries; none
    if nothing is asked for.
    """
    if not (references or with_automatic):
        return []
    ids = [folder_id for reference in references if (folder_id := _id_in(reference))]
    wanted = Q(pk__in=ids) | Q(name__in=references)
    if with_automatic:
        wanted |= _automatic_for(actor)
    found = visible_folders(actor).filter(wanted)
    return sorted(found, key=lambda folder: not _is_owner(actor, folder))


def access_mountable_folder(
    actor: Actor, reference: str, candidates: Sequence[VFolder], *, is_readonly: bool = False
) -> VFolder:
    """Return the candidate with this id or name that the actor may mount; of several with one name,
    the actor's own. No query.

    Raises NotFound, PermissionDenied, Conflict (several folders of that name belong to projects of the
    actor or are shared with the actor).
    """
    action = Action.MOUNT_READONLY if is_readonly else Action.MOUNT
    if folder_id := _id_in(reference):
        return _allowed(actor, next((each for each in candidates if each.pk == folder_id), None), action)
    named = [each for each in candidates if each.name == reference and _is_to_work_with(actor, each)]
    if not named:
        raise NotFound(
            _("There is no folder {name} among yours.").format(name=quoted(reference, 64)),
            hint=_("Create it on the page Data, or check its name."),
        )
    if len(named) > 1 and not _is_owner(actor, named[0]):
        ids = ", ".join(str(folder.pk) for folder in named)
        sentence = (
            _("Several of the folders that you share are called “{folder}”.")
            if any(each.shared_right for each in named)  # type: ignore[attr-defined]
            else _("Several of your projects have a folder “{folder}”.")
        )
        raise Conflict(
            sentence.format(folder=named[0].name),
            hint=_("Give its id instead of its name, one of: {ids}.").format(ids=ids),
        )
    return _allowed(actor, named[0], action)


def mount_actions(pairs: Collection[tuple[int, VFolder]]) -> dict[tuple[int, VFolder], frozenset[Action]]:
    """Return what each of these people may do with the folder as one to work with: as owner, member of
    its project, or by a share, as far as the rights on its host permit. Rights of administrators do not
    count, but only others are bound by those on hosts. Two queries for any number, two more with a
    restricted host.
    """
    people = {user_id for user_id, _folder in pairs}
    projects: dict[int, set[int]] = {user_id: set() for user_id in people}
    members = Membership.objects.filter(user_id__in=people, project__is_active=True)
    for user_id, project_id in members.values_list("user_id", "project_id"):
        projects[user_id].add(project_id)
    shares = list(_living_shares().filter(folder__in={folder.pk for _user_id, folder in pairs}))

    def relations(user_id: int, folder: VFolder) -> Iterator[Relation]:
        if folder.owner_id == user_id:
            yield Relation.OWNER
        if folder.project_id in projects[user_id]:
            yield Relation.MEMBER
        for share in shares:
            is_with = share.user_id == user_id or share.project_id in projects[user_id]
            if share.folder_id == folder.pk and is_with:
                yield RELATION_OF[Right(share.right)]

    rights = _mount_rights(pairs)
    return {pair: permitted_actions(allowed_actions(relations(*pair)), rights[pair]) for pair in pairs}


def _mount_rights(pairs: Collection[tuple[int, VFolder]]) -> dict[tuple[int, VFolder], HostRight]:
    restricted = {folder.host_id for _user_id, folder in pairs if folder.host.is_restricted}
    if not restricted:
        return dict.fromkeys(pairs, ALL_RIGHTS)
    people = User.objects.in_bulk({user_id for user_id, _folder in pairs})
    grants = list(StorageGrant.objects.filter(host__in=restricted))

    def rights(person: User, folder: VFolder) -> HostRight:
        oversees_domain = person.role in OVERSEERS_OF_DOMAIN and person.domain_id == folder.domain_id
        if person.role in OVERSEERS_OF_ALL or oversees_domain:
            return ALL_RIGHTS
        holders = {
            (folder.domain_id, None, None),
            (None, folder.project_id, None),
            (None, None, person.policy_id),
        }
        granted = [
            each.rights
            for each in grants
            if each.host_id == folder.host_id and (each.domain_id, each.project_id, each.policy_id) in holders
        ]
        return host_rights(is_restricted=folder.host.is_restricted, granted=granted)

    return {(user_id, folder): rights(people[user_id], folder) for user_id, folder in pairs}


def _id_in(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None


def _is_owner(actor: Actor, folder: VFolder) -> bool:
    return folder.owner_id is not None and folder.owner_id == actor.user_id


def _is_to_work_with(actor: Actor, folder: VFolder) -> bool:
    return not {Relation.OWNER, Relation.MEMBER, *SHARED}.isdisjoint(_relations(actor, folder))


def backend_of(host: StorageHost) -> StorageBackend:
    """Return the storage backend of a host. Raises StorageUnavailable if its settings are invalid."""
    return open_storage(host.kind, {**host.config, **host.secret_values}, mount_name=str(host.pk))


def storage_of(folder: VFolder) -> StorageBackend:
    """Return the storage backend that holds the folder."""
    return backend_of(folder.host)


def files_of(folder: VFolder) -> FolderFiles:
    """Return the files of the folder."""
    return FolderFiles(storage_of(folder), folder.pk, calls_of(folder.host))


def calls_of(host: StorageHost) -> HostCalls:
    """Return the bounded calls to a host: everything that waits for it goes through them."""
    return HostCalls(host.pk, host.name)


def mount_source(folder: VFolder) -> str:
    """Return the absolute path on the portal's machine for a bind mount.
    Raises StorageUnavailable if the folder is being deleted or its files are missing.
    """
    if folder.state != FolderState.READY:
        raise StorageUnavailable(_("The folder “{folder}” is being deleted.").format(folder=folder.name))
    return calls_of(folder.host).run(partial(storage_of(folder).folder_path, folder.pk))


def folder_mount(folder: VFolder, *, is_portal_machine: bool) -> FolderMount:
    """Return how a machine mounts the folder. Raises StorageUnavailable if it is being deleted, its files
    are missing, or only the portal's machine reaches them.
    """
    return mount_from(folder.host, mount_source(folder), is_portal_machine=is_portal_machine)


def mount_from(host: StorageHost, source: str, *, is_portal_machine: bool) -> FolderMount:
    """Return how a machine mounts the folder of the host that is at `source` on the portal's machine.
    Raises StorageUnavailable.
    """
    if is_portal_machine:
        return FolderMount(source)
    name = source.rpartition("/")[2]
    if host.reach == StorageHost.Reach.PATH:
        return path_mount(host.agent_path, name)
    if host.reach == StorageHost.Reach.VOLUME:
        return volume_mount(host.volume_options, host.volume_secret, name)
    raise StorageUnavailable(
        _("The storage host “{host}” is local to the portal's machine.").format(host=host.name),
        hint=_("State on the page Storage hosts how other machines reach it, or use the portal's machine."),
    )


def access_storage_host(name: str) -> StorageHost:
    """Return the active host of this name, or the default one for "". Raises NotFound."""
    hosts = StorageHost.objects.filter(is_active=True)
    host = hosts.filter(name=name).first() if name else hosts.filter(is_default=True).first()
    if host is not None and host.error:
        raise StorageUnavailable(
            _("The storage host “{host}” is unhealthy, so no folders are made there: {error}").format(
                host=host.name, error=host.error
            ),
            hint=_("Choose another host, or ask an administrator."),
        )
    if host is None:
        sentence = (
            _("There is no storage host {name}.").format(name=quoted(name, 64))
            if name
            else _("There is no storage host yet.")
        )
        raise NotFound.at("host", sentence, hint=_("Ask an administrator."))
    return host


def storage_host_names() -> list[str]:
    """Names of the hosts on which folders may be created, the default one first. One query."""
    hosts = StorageHost.objects.filter(is_active=True, error="").order_by("-is_default", "name")
    return list(hosts.values_list("name", flat=True))


def usual_storage_host(scopes: Sequence[Scope]) -> StorageHost:
    """Return the default host, or the first active one if these scopes allow only others.
    Raises NotFound. One or two queries.
    """
    if not any(AllowList.STORAGE_HOSTS.value in scope.allowed for scope in scopes):
        return access_storage_host("")
    hosts = StorageHost.objects.filter(is_active=True, error="").order_by("-is_default", "name")
    allowed = (host for host in hosts if not host_refusals(scopes, host))
    return next(allowed, None) or access_storage_host("")


def host_refusals(scopes: Sequence[Scope], host: StorageHost) -> tuple[ScopeAllowList, ...]:
    """Return the allow-lists that forbid these scopes to create folders on `host`."""
    return refusing_lists(scopes, {AllowList.STORAGE_HOSTS: host.name})


def _relations(actor: Actor, folder: VFolder) -> Iterator[Relation]:
    # annotated by visible_folders
    is_member: bool = folder.is_member  # type: ignore[attr-defined]
    shared_right: str | None = folder.shared_right  # type: ignore[attr-defined]
    if _is_owner(actor, folder):
        yield Relation.OWNER
    if is_member:
        yield Relation.MEMBER
    if is_member and folder.creator_id == actor.user_id:
        yield Relation.CREATOR
    if shared_right is not None:
        yield RELATION_OF[Right(shared_right)]
    if folder.is_project_admin and not actor.is_read_only:  # type: ignore[attr-defined]
        yield Relation.PROJECT_ADMIN
    if folder.is_overseen:  # type: ignore[attr-defined]
        yield Relation.MONITOR if actor.is_read_only else Relation.GOVERNOR


_REFUSALS = {
    Action.VIEW: gettext_noop("You may not see the folder “{folder}”."),
    Action.READ: gettext_noop("You may not read the folder “{folder}”."),
    Action.WRITE: gettext_noop("You may not change the folder “{folder}”."),
    Action.MOUNT_READONLY: gettext_noop("You may not mount the folder “{folder}”."),
    Action.MOUNT: gettext_noop("You may not mount the folder “{folder}”."),
    Action.DELETE: gettext_noop("You may not delete the folder “{folder}”."),
    Action.SHARE: gettext_noop("You may not share the folder “{folder}”."),
    Action.MANAGE: gettext_noop("You may not manage the folder “{folder}”."),
}
