"""Roles of portals: what runs on a machine of an installation with several, and what must be given to it."""

import os
from collections.abc import Mapping
from enum import StrEnum

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout
from portal.ops.setup.env_file import read_env

NAME = "BERTH_ROLE"
# Whatever signs, encrypts, labels or owns something that another portal reads.
SHARED = (
    "BERTH_SECRET_KEY",
    "BERTH_INSTALLATION",
    "BERTH_URL",
    "BERTH_CONTAINER_UID",
    "BERTH_CONTAINER_GID",
    "DATABASE_URL",
    "REDIS_URL",
)


class Role(StrEnum):
    """Role of a portal. ALL also sets up the installation, and is meant for one machine."""

    ALL = "all"
    WEB = "web"
    WORKER = "worker"

    @property
    def joins(self) -> bool:
        """True if it joins an installation that another portal has set up."""
        return self is not Role.ALL

    @property
    def has_web(self) -> bool:
        return self is not Role.WORKER

    @property
    def services(self) -> tuple[str, ...]:
        """Names of the processes of the portal itself, in start order."""
        workers = ("worker", "ends", "tick", "beat")
        return {Role.ALL: ("web", *workers), Role.WEB: ("web",), Role.WORKER: workers}[self]


def role_of(layout: Layout) -> Role:
    """Return the role of the portal whose data are there; ALL if there are none."""
    return Role(read_env(layout.env_file).get(NAME, Role.ALL))


def choose_role(layout: Layout, wanted: str) -> Role:
    """Return the role to run: `wanted`, or that of the data if it is empty. Raises PreflightFailed if
    the data are those of an installation that was set up there, or it lacks what it must share.
    """
    before = role_of(layout)
    role = Role(wanted) if wanted else before
    has_run = layout.lock_file.exists()
    if role.joins != before.joins and (has_run or before.joins):
        raise PreflightFailed(
            f"{layout.data} holds the data of a portal with the role {before}.",
            f"Name another directory: bin/up --role {role} --data DIR, or go on with it: bin/up --role {before}",
        )
    if role.joins:
        check_shared(layout, role, {**read_env(layout.env_file), **os.environ})
    return role


def check_shared(layout: Layout, role: Role, values: Mapping[str, str]) -> None:
    """Check that everything is there that portals of one installation share. Raises PreflightFailed."""
    missing = [name for name in SHARED if not values.get(name)]
    if missing:
        raise PreflightFailed(
            f"A portal with the role {role} lacks {', '.join(missing)}: it shares them with the other portals, and makes none.",
            f"Copy the file env from the data directory of the portal with --role all to {layout.env_file} "
            "(mode 0600), and write DATABASE_URL and REDIS_URL into it as all machines reach them.",
        )
