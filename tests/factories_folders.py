"""Create folders on a storage host below a temporary directory."""

from itertools import count
from pathlib import Path
from typing import Any

from accounts.models import Project, User
from common import clock
from common.actors import Actor, ActorKind
from tests.factories import actor_for
from vfolders import services
from vfolders.core.permissions import Right
from vfolders.models import FolderShare, StorageHost, VFolder

_numbers = count(1)


def make_storage_host(root: Path) -> StorageHost:
    """Create the default storage host, ready for folders."""
    StorageHost.objects.create(name="local", config={"root": str(root / "folders")}, is_default=True)
    return services.ensure_default_host()


def make_folder(owner: User, *, name: str = "", project: Project | None = None) -> VFolder:
    """Create a folder of `owner`, or one shared with `project`."""
    return services.create_folder(
        actor=actor_for(owner),
        name=name or f"folder-{next(_numbers)}",
        project=project.name if project else "",
    )


def superadmin_actor(user: User) -> Actor:
    return Actor(
        kind=ActorKind.USER, user_id=user.pk, label=user.email, domain_id=user.domain_id, is_superadmin=True
    )


def make_share(
    folder: VFolder, person: User | None = None, *, right: Right = Right.READ, **columns: Any
) -> FolderShare:
    """Share the folder with a person, who has accepted, or with the project in `columns`."""
    accepted = {"accepted_at": clock.now()}
    return FolderShare.objects.create(folder=folder, user=person, right=right.value, **accepted | columns)
