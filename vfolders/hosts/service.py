"""Adds, changes and removes storage hosts, and grants rights on them; for superadmins.

Nothing is mounted inside a transaction. A process that dies while a host is added leaves it
inactive; the next check of its health, a change or a removal goes on from there.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Domain, Project, ResourcePolicy
from accounts.selectors import require_superadmin
from common.actors import Actor
from common.audit import audit_log
from common.errors import BerthError, Conflict, InvalidInput, NotFound, invalid_field
from common.values.text import check_text
from vfolders.core.host_rights import HostRight, right_names
from vfolders.hosts.health import CHECK_S, look_at, mark_of, store_health
from vfolders.models import StorageGrant, StorageHost, VFolder
from vfolders.selectors import backend_of, calls_of
from vfolders.storage.base import StorageBackend, StorageUnavailable
from vfolders.storage.kinds import HostKind
from vfolders.storage.registry import KINDS, mount_point
from vfolders.storage.secret_files import remove_secret_files


def add_host(*, actor: Actor, name: str, kind: str, settings: Mapping[str, Any]) -> StorageHost:
    """Add a host: check its settings and this machine, prepare it, then open it for folders.

    Raises InvalidInput, Conflict (the name is taken), StorageUnavailable (with what the machine lacks).
    """
    require_superadmin(actor)
    with invalid_field("name"):
        name = _check_name(name)
    found = _kind(kind)
    values = found.check(settings, {})
    host = StorageHost(name=name, kind=kind, is_active=False)
    _set_values(host, found, values)
    try:
        with transaction.atomic():
            host.save(force_insert=True)
            audit_log.record(
                actor=actor,
                action="vfolders.add_storage_host",
                target=host,
                changes={"kind": kind, **host.config},
            )
    except IntegrityError as error:
        sentence = _("There is a storage host “{name}” already.").format(name=name)
        raise Conflict(sentence, fields={"name": [sentence]}) from error
    try:
        _prepare(host)
    except BerthError:
        _detach(host)
        remove_secret_files(mount_point(str(host.pk)))
        StorageHost.objects.filter(pk=host.pk).delete()
        raise
    host.is_active = True
    host.save(update_fields=["is_active"])
    return host


def change_host(
    *,
    actor: Actor,
    host_id: int,
    settings: Mapping[str, Any] | None = None,
    is_active: bool | None = None,
    is_default: bool | None = None,
) -> StorageHost:
    """Change a host; absent values and secrets stay. New settings are tried before they stay: if the host
    does not work with them, the former ones are used again and StorageUnavailable is raised.

    Raises InvalidInput, NotFound.
    """
    require_superadmin(actor)
    host = access_host(host_id)
    if settings is not None:
        found = _kind(host.kind)
        kept = {**host.config, **host.secret_values}
        values = found.check(
            {**{k: v for k, v in host.config.items() if k not in settings}, **settings}, kept
        )
        if values != {**{each.name: "" for each in found.settings}, **kept}:
            _try_values(host, found, values)
    with transaction.atomic():
        if is_default:
            StorageHost.objects.exclude(pk=host.pk).filter(is_default=True).update(is_default=False)
            host.is_default = True
        if is_active is not None:
            host.is_active = is_active
        host.save(update_fields=["is_active", "is_default"])
        changes = {**host.config, "is_active": host.is_active, "is_default": host.is_default}
        audit_log.record(actor=actor, action="vfolders.change_storage_host", target=host, changes=changes)
    return host


def _try_values(host: StorageHost, kind: HostKind, values: Mapping[str, str]) -> None:
    before = host.config, host.secrets
    _detach(host)
    _set_values(host, kind, values)
    try:
        _prepare(host, has_folders=VFolder.objects.filter(host=host).exists())
    except BerthError:
        _detach(host)
        host.config, host.secrets = before
        with suppress(BerthError):
            calls_of(host).run(backend_of(host).attach, timeout_s=CHECK_S)
        raise
    host.save(update_fields=["config", "secrets"])


def remove_host(*, actor: Actor, host_id: int) -> None:
    """Remove a host without folders from Berth, and unmount it; its files stay. Raises NotFound, Conflict."""
    require_superadmin(actor)
    host = access_host(host_id)
    if host.is_default:
        raise Conflict(
            _("“{host}” is the default storage host.").format(host=host.name),
            hint=_("Make another one the default first."),
        )
    with transaction.atomic():
        StorageHost.objects.select_for_update().get(pk=host.pk)
        count = VFolder.objects.filter(host=host).count()
        if count:
            raise Conflict(
                ngettext(
                    "{count} folder is on “{host}”, counting the trash.",
                    "{count} folders are on “{host}”, counting the trash.",
                    count,
                ).format(count=count, host=host.name),
                hint=_("Delete them first, or make the host inactive: then no new ones come."),
                code="storage_host_in_use",
            )
        audit_log.record(actor=actor, action="vfolders.remove_storage_host", target=host)
        host.delete()
    host.pk = host_id  # deletion has taken it; the mount is known by it
    with suppress(BerthError):
        storage = backend_of(host)
        calls_of(host).run(lambda: storage.delete_folder(mark_of(host)), timeout_s=CHECK_S)
    _detach(host)
    remove_secret_files(mount_point(str(host_id)))


def probe_host(*, actor: Actor, host_id: int) -> StorageHost:
    """Check a host's health now. Raises NotFound, PermissionDenied."""
    require_superadmin(actor)
    host = access_host(host_id)
    space, error = look_at(host)
    store_health(host, space, error)
    return host


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights of one holder: the name of a domain, of a project as domain/project, or of a policy."""

    holder: str
    name: str
    rights: HostRight


def restrict_host(*, actor: Actor, host_id: int, grants: Sequence[Grant] | None) -> StorageHost:
    """Let only these holders use the host, with these rights; None opens it to everybody.
    Raises InvalidInput (a holder does not exist), NotFound.
    """
    require_superadmin(actor)
    host = access_host(host_id)
    rows = [StorageGrant(host=host, rights=int(each.rights), **_holder(each)) for each in grants or ()]
    with transaction.atomic():
        StorageHost.objects.select_for_update().get(pk=host.pk)
        host.grants.all().delete()
        try:
            StorageGrant.objects.bulk_create(rows)
        except IntegrityError as error:
            raise InvalidInput(_("A holder of rights is named twice.")) from error
        host.is_restricted = grants is not None
        host.save(update_fields=["is_restricted"])
        shown = {f"{each.holder} {each.name}": right_names(each.rights) for each in grants or ()}
        audit_log.record(
            actor=actor,
            action="vfolders.restrict_storage_host",
            target=host,
            changes={"is_restricted": host.is_restricted, "grants": shown},
        )
    return host


HOLDERS = ("domain", "project", "policy")


def _holder(grant: Grant) -> dict[str, Any]:
    domain, _slash, project = grant.name.partition("/")
    found: Domain | Project | ResourcePolicy | None = None
    if grant.holder == "domain":
        found = Domain.objects.filter(name=grant.name).first()
    elif grant.holder == "project":
        found = Project.objects.filter(domain__name=domain, name=project).first()
    elif grant.holder == "policy":
        found = ResourcePolicy.objects.filter(name=grant.name).first()
    if found is None:
        sentence = _("There is no {holder} “{name}”.").format(holder=grant.holder[:20], name=grant.name[:130])
        raise InvalidInput(
            sentence, hint=_("Write a project as domain/project."), fields={"grants": [sentence]}
        )
    return {grant.holder: found}


def access_host(host_id: int) -> StorageHost:
    """Return the host. Raises NotFound."""
    host = StorageHost.objects.filter(pk=host_id).first()
    if host is None:
        raise NotFound(_("There is no such storage host."))
    return host


def _check_name(name: str) -> str:
    text = check_text(name, max_length=64).strip()
    if not text or "," in text:  # allow-lists of policies join names by commas
        raise ValueError(_("Write a name without commas."))
    return text


def _kind(name: str) -> HostKind:
    found = KINDS.get(name)
    if found is None:
        sentence = _("Berth has no storage hosts of the kind “{kind}”.").format(kind=name[:64])
        raise InvalidInput(sentence, fields={"kind": [sentence]})
    return found


def _set_values(host: StorageHost, kind: HostKind, values: Mapping[str, str]) -> None:
    host.config = {name: value for name, value in values.items() if name not in kind.secret_names and value}
    secrets = {name: value for name, value in values.items() if name in kind.secret_names and value}
    host.secrets = json.dumps(secrets) if secrets else ""


def _prepare(host: StorageHost, *, has_folders: bool = False) -> None:
    """Prepare the host and look at it. Raises StorageUnavailable, with all that the machine lacks, and if
    the host has folders that are not there: a purge would take them for removed.
    """
    storage = backend_of(host)
    calls = calls_of(host)
    if lacking := calls.run(storage.lacks):
        raise StorageUnavailable(" ".join(lacking), hint=_("Then add the host again."))
    calls.run(storage.prepare, timeout_s=CHECK_S)
    if lacking := calls.run(storage.lacks):
        raise StorageUnavailable(" ".join(lacking))
    if has_folders and not calls.run(partial(_is_marked, storage, mark_of(host)), timeout_s=CHECK_S):
        raise StorageUnavailable(
            _("The folders of “{host}” are not there.").format(host=host.name),
            hint=_("Move everything in its directory there first, or add another host for new folders."),
        )
    space, error = look_at(host)
    if error:
        raise StorageUnavailable(error)
    volume = storage.agent_volume()
    if volume is not None:
        host.reach = StorageHost.Reach.VOLUME
        host.volume_options, host.volume_secret = volume
        host.save(update_fields=["reach", "volume_options", "volume_secret"])
    store_health(host, space, "")


def _is_marked(storage: StorageBackend, mark: UUID) -> bool:
    """Return True if the mark that checks of health leave is on the host."""
    try:
        with storage.opened(mark):
            return True
    except StorageUnavailable:
        return False


def _detach(host: StorageHost) -> None:
    with suppress(BerthError):
        calls_of(host).run(backend_of(host).detach, timeout_s=CHECK_S)
