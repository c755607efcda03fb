"""Loads the admission inputs of a request: locked for a submit, unlocked for a check.

Locked inputs cannot change until the transaction ends: a concurrent change waits for the admission,
or the admission waits and sees the change. Locks are taken in the order of ADR 8.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from accounts.admission_gate import enter_admission
from accounts.budgets.selectors import budget_states
from accounts.credentials.keypairs import require_scopes
from accounts.limits import scope_ids
from accounts.models import Domain, KeyPair, Membership, Project, ResourcePolicy, User
from accounts.selectors import may_do_everything, project_refusal, usable_projects
from agents.capacity.device_kinds import device_kinds
from agents.models import ResourceGroup
from agents.selectors import (
    access_resource_group,
    has_machine_for,
    machine_sizes,
    named_or_default_group,
    usable_resource_groups,
)
from agents.sharing.selectors import makes_partitions, sharing_rules_for
from common.actors import Actor
from common.db.row_locks import RowLock, lock_by_id, lock_rows
from common.errors import BerthError, NotAuthenticated, NotFound
from common.token_scopes import FOR_SESSIONS
from common.values.resources import CPU, MEM, MIG, ResourceSlots
from images.models import ContainerImage, Registry
from images.selectors import access_image, image_named, image_not_found, visible_images
from sessions_app.admission.inputs import AdmissionInputs, ResolvedMount
from sessions_app.admission.names import used_names
from sessions_app.callbacks.delivery import check_callback
from sessions_app.core.container_spec import HOME
from sessions_app.core.request import FolderRequest, RoleRequest, SessionRequest, conflicting_path
from sessions_app.limits.accelerator_model import device_models_in
from sessions_app.limits.designated_agent import find_designated_agent
from sessions_app.limits.device_requirements import (
    GroupDevices,
    machine_needs,
    resolve_devices,
    resolve_model,
    without_parts,
)
from sessions_app.limits.policy_limits import budget_owners, load_scopes
from sessions_app.queue import holds
from sessions_app.queue.dependencies import Dependency, lock_awaited, resolve_dependencies
from vfolders.core.paths import parse_path
from vfolders.core.permissions import Action
from vfolders.models import VFolder
from vfolders.selectors import (
    access_mountable_folder,
    actions_on,
    automatic_folders,
    check_directory,
    has_automatic_folders,
    mountable_candidates,
)
from vfolders.services import lock_folders

Mounts = Sequence[ResolvedMount]
PolicyId = int | None


def load_admission_inputs(
    actor: Actor, requests: Sequence[SessionRequest], *, is_locked: bool
) -> AdmissionInputs:
    """Return the inputs of requests that differ only in name, command and environment.

    `is_locked` locks the inputs until the end of the transaction. At most 35 queries, any number of
    requests, folders and machines. Raises NotFound or PermissionDenied for a project, an image or a
    resource group that the actor cannot use, NotFound for a closed account, NotAuthenticated for a
    token that is not valid any more.
    """
    request, unresolved = requests[0], _Unresolved()
    find = _lock_named if is_locked else _find_named
    actor, project, image, group, mounts = find(actor, request, unresolved)
    dependencies: Sequence[Dependency] = ()
    agent = None
    with unresolved.at("dependencies"):
        dependencies = resolve_dependencies(actor, project, request.dependencies)
    with unresolved.at("callback_url"):
        check_callback(actor, request.callback_url)
    with unresolved.at("designated_agent"):
        agent = find_designated_agent(group, request)
    keys = scope_ids(actor, project).keys()
    request = _resolve_devices(group, image, request, unresolved)
    scopes, folder_limits = load_scopes(keys, [mount.folder for mount in mounts if not mount.is_readonly])
    needs = machine_needs(request, image.architecture)
    has_machine = all(
        has_machine_for(group, _slots_now(group, slots), needs) for slots in request.slots_at_once
    )
    return AdmissionInputs(
        actor=actor,
        requests=[
            replace(
                each,
                resources=request.resources,
                roles=request.roles,
                device_model=request.device_model,
                device_mem=request.device_mem,
                device_api=request.device_api,
            )
            for each in requests
        ],
        project=project,
        image=image,
        group=group,
        scopes=scopes,
        budgets=budget_states(budget_owners(keys)),
        folder_limits=folder_limits,
        used_names=() if is_locked else used_names(actor, requests),
        has_machine=has_machine,
        machine_sizes={} if has_machine and request.cluster_size == 1 else machine_sizes(actor, project),
        image_hold=holds.missing_image_hold(group, image),
        mounts=mounts,
        dependencies=lock_awaited(dependencies) if is_locked else dependencies,
        agent=agent,
        unresolved=unresolved,
    )


def _resolve_devices(
    group: ResourceGroup, image: ContainerImage, request: SessionRequest, unresolved: "_Unresolved"
) -> SessionRequest:
    """Return the request with its accelerators as the scheduler knows them: the whole name of the
    model, and a share of one device. At most 3 queries, none without accelerators.
    """
    if set(request.total_slots) <= {CPU, MEM}:
        return request
    kinds = device_kinds(group, image.architecture)
    devices = GroupDevices(
        group.name,
        image,
        device_models_in([group], image.architecture) if request.device_model else (),
        kinds,
        sharing_rules_for(group, {kind.model for kind in kinds}),
    )
    resolved = None
    with unresolved.at("device_model"):
        request = replace(request, device_model=resolve_model(devices, request.device_model))
        with unresolved.at("resources"):
            resolved = resolve_devices(devices, request)
            resolved = replace(
                resolved, roles=[_resolve_role(devices, request, each) for each in request.roles]
            )
    return resolved or without_parts(request)


def _resolve_role(devices: GroupDevices, request: SessionRequest, role: RoleRequest) -> RoleRequest:
    """Return the role with its accelerators as the scheduler knows them. No query."""
    if role.resources is None:
        return role
    return replace(
        role, resources=resolve_devices(devices, replace(request, resources=role.resources)).resources
    )


def _slots_now(group: ResourceGroup, slots: ResourceSlots) -> ResourceSlots:
    """Return the slots that a machine must have already: without MIG partitions if the group makes them on
    demand. One query if partitions are requested, else none.
    """
    fixed = ResourceSlots({name: n for name, n in slots.items() if not name.startswith(MIG)})
    return fixed if fixed != slots and makes_partitions(group) else slots


class _Unresolved(dict[str, BerthError]):
    """Refusals by field; `decide` puts them in order."""

    @contextmanager
    def at(self, field: str) -> Iterator[None]:
        """Catch a BerthError raised in the block and keep it as the refusal of `field`."""
        try:
            yield
        except BerthError as error:
            self[field] = error


class _Named(NamedTuple):
    """The actor with current rights, and objects that every request names."""

    actor: Actor
    project: Project
    image: ContainerImage
    group: ResourceGroup
    mounts: Mounts


def _find_named(actor: Actor, request: SessionRequest, unresolved: _Unresolved) -> _Named:
    project = _named_project(actor, request).first()
    if project is None:
        raise project_refusal(actor, request.project)
    image = access_image(actor, request.image)
    group = access_resource_group(actor, request.resource_group, project)
    mounts: Mounts = ()
    with unresolved.at("mounts"):
        mounts = _resolve_mounts(
            actor, request.mounts, with_automatic=_mounts_automatically(request, project)
        )
        _check_directories(mounts)
    return _Named(actor, project, image, group, mounts)


def _lock_named(actor: Actor, request: SessionRequest, unresolved: _Unresolved) -> _Named:
    """Lock the named objects, owner, memberships, grants and limiting policies (order of ADR 8)."""
    enter_admission()
    actor, policy_ids = _lock_owner(actor)
    project = _lock_project(actor, request)
    policy_ids += [project.policy_id, project.domain_policy_id]  # type: ignore[attr-defined]
    mounts: Mounts = ()
    with unresolved.at("mounts"):
        mounts = _resolve_mounts(
            actor, request.mounts, with_automatic=_mounts_automatically(request, project)
        )
        policy_ids += _lock_folder_projects(mounts, project)
    lock_by_id(ResourcePolicy, policy_ids, RowLock.SHARE)
    image = _lock_image(actor, request.image)
    if mounts:
        with unresolved.at("mounts"):
            mounts = _lock_mounts(actor, mounts)
    return _Named(actor, project, image, _lock_group(actor, request.resource_group, project), mounts)


def _lock_owner(actor: Actor) -> tuple[Actor, list[PolicyId]]:
    """Lock the account and the token. Return the actor with the rights of the locked row, which may
    have changed since the request began, and the ids of the policies of both.

    Changes to a user's memberships lock the account too. Raises NotFound for a closed account.
    """
    if actor.user_id is None:  # the system or an anonymous actor, which has no project
        return actor, []
    user = next(iter(lock_by_id(User, [actor.user_id], RowLock.SHARE)), None)
    if user is None or not user.is_active:
        raise NotFound(_("This account does not exist any more."))
    actor = replace(
        actor,
        domain_id=user.domain_id,
        is_superadmin=user.is_superuser,
        is_monitor=user.is_monitor,
        is_domain_monitor=user.is_domain_monitor,
    )
    return actor, [user.policy_id, *_lock_token(actor)]


def _lock_token(actor: Actor) -> list[PolicyId]:
    """Lock the token, if the actor has one, and return the id of its policy. Raises
    NotAuthenticated for an invalid token, PermissionDenied for one that may start no sessions.
    """
    if actor.keypair_id is None:
        return []
    # Requests update the last use, which is no admission input. So changes of the token lock FOR
    # UPDATE, and KEY SHARE suffices here.
    keypair = next(iter(lock_by_id(KeyPair, [actor.keypair_id], RowLock.KEY_SHARE)), None)
    if keypair is None or not keypair.is_usable:
        raise NotAuthenticated(_("This token is unknown, revoked or expired."))
    require_scopes(keypair, FOR_SESSIONS)
    return [keypair.policy_id]


def _named_project(actor: Actor, request: SessionRequest) -> QuerySet[Project]:
    """The project that the request names, if the actor may use it, with `has_automatic`: so only those
    who have auto-mount folders pay for reading them.
    """
    return (
        usable_projects(actor)
        .filter(name=request.project)
        .annotate(has_automatic=has_automatic_folders(actor))
    )


def _mounts_automatically(request: SessionRequest, project: Project) -> bool:
    """Return True if the session gets auto-mount folders. The project is from `_named_project`."""
    return request.personal_files and project.has_automatic  # type: ignore[attr-defined]


def _lock_project(actor: Actor, request: SessionRequest) -> Project:
    """Lock the project, its domain and the actor's membership; return it with `domain_policy_id`.

    Raises NotFound, PermissionDenied.
    """
    named = _named_project(actor, request).select_related(None)
    named = named.annotate(domain_policy_id=F("domain__policy_id"))
    project = next(iter(lock_rows(named, RowLock.SHARE, joined=[Domain, Membership])), None)
    if project is None:
        raise project_refusal(actor, request.project)
    return project


def _lock_folder_projects(mounts: Mounts, project: Project) -> list[PolicyId]:
    """Lock the other projects that own mounted folders; return the ids of their policies.

    Folders of an archived project cannot be mounted.
    """
    ids = {mount.folder.project_id for mount in mounts} - {project.pk}
    return [each.policy_id for each in lock_by_id(Project, ids, RowLock.SHARE)]


def _lock_image(actor: Actor, reference: str) -> ContainerImage:
    """Lock the image and its registry. Raises NotFound."""
    visible = visible_images(actor).select_related(None)
    image = next(iter(lock_rows(visible.filter(image_named(reference)), RowLock.SHARE)), None)
    if image is None:  # raises the refusal, or finds the newest image of a repository
        found = access_image(actor, reference)
        image = next(iter(lock_rows(visible.filter(pk=found.pk), RowLock.SHARE)), None)
    if image is None:  # disabled since it was found
        raise image_not_found(reference)
    if image.registry_id is not None:
        [registry] = lock_by_id(Registry, [image.registry_id], RowLock.SHARE)
        if not registry.is_enabled:
            raise image_not_found(reference)
    return image


def _lock_group(actor: Actor, name: str, project: Project) -> ResourceGroup:
    """Lock the resource group against changes of its settings and grants. Raises NotFound.

    Changes of settings or grants lock FOR UPDATE, so KEY SHARE suffices here.
    """
    usable = usable_resource_groups(actor, project)
    group = next(iter(lock_rows(named_or_default_group(usable, name)[:1], RowLock.KEY_SHARE)), None)
    if group is None:
        return access_resource_group(actor, name, project)
    if not group.is_public and not may_do_everything(actor):  # grants are separate rows
        access_resource_group(actor, group.name, project)
    return group


def _resolve_mounts(
    actor: Actor, requested: Sequence[FolderRequest], *, with_automatic: bool = False
) -> Mounts:
    """Return the folders that a request names, then, if asked for, those mounted automatically. At most 2
    queries; none if nothing is asked for.

    Raises NotFound, PermissionDenied, Conflict at the field of the mount.
    """
    names = [mount.name for mount in requested]
    candidates = mountable_candidates(actor, names, with_automatic=with_automatic)
    mounts = tuple(_resolve_mount(actor, index, mount, candidates) for index, mount in enumerate(requested))
    return (*mounts, *_automatic_mounts(actor, mounts, candidates)) if with_automatic else mounts


def _resolve_mount(
    actor: Actor, index: int, mount: FolderRequest, candidates: Sequence[VFolder]
) -> ResolvedMount:
    try:
        folder = access_mountable_folder(actor, mount.name, candidates, is_readonly=mount.readonly)
    except BerthError as error:
        error.fields = {f"mounts.{index}.folder": [error.message]}
        raise
    return ResolvedMount(folder, mount.path or f"{HOME}/{folder.name}", mount.readonly, subpath=mount.subpath)


def check_mounted_directories(actor: Actor, request: SessionRequest) -> None:
    """Look whether the directories in folders that the request mounts are there; what reads from storage
    hosts must not run in the transaction of the admission. Raises what `_check_directories` does, and
    what resolving the folders raises.
    """
    if any(mount.subpath for mount in request.mounts):
        _check_directories(_resolve_mounts(actor, request.mounts))


def _check_directories(mounts: Mounts) -> None:
    """Look whether the directories in folders are there. Raises NotFound, Conflict, StorageUnavailable at
    the field of the mount. Not in a transaction, because it reads from storage hosts.
    """
    for index, mount in enumerate(mounts):
        if mount.subpath:
            try:
                check_directory(mount.folder, parse_path(mount.subpath))
            except BerthError as error:
                error.fields = {f"mounts.{index}.folder": [error.message]}
                raise


def _automatic_mounts(actor: Actor, requested: Mounts, candidates: Sequence[VFolder]) -> Mounts:
    """Return the mounts of the actor's auto-mount folders, but those that the request mounts itself or
    whose place it uses otherwise, and those whose host denies to mount. No query.
    """
    taken = [mount.path for mount in requested]
    named = {mount.folder.pk for mount in requested}
    return tuple(
        ResolvedMount(folder, path, is_readonly=False, is_automatic=True)
        for folder in automatic_folders(actor, candidates)
        if (path := f"{HOME}/{folder.name}") and folder.pk not in named
        if Action.MOUNT in actions_on(actor, folder)
        if not conflicting_path([*taken, path])
    )


def _lock_mounts(actor: Actor, mounts: Mounts) -> Mounts:
    """Lock the folders and resolve the mounts again, with the actor's permissions of now.

    Raises what `_resolve_mounts` raises, and Conflict if a folder was deleted.
    """
    lock_folders(mount.folder.pk for mount in mounts)
    by_id = [
        FolderRequest(f"{mount.folder.pk}/{mount.subpath}".removesuffix("/"), mount.path, mount.is_readonly)
        for mount in mounts
    ]
    found = _resolve_mounts(actor, by_id)
    return tuple(
        replace(mount, is_automatic=before.is_automatic) for mount, before in zip(found, mounts, strict=True)
    )
