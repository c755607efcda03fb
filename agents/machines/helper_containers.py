"""Helper containers of Berth on machines: labels, the image that they run, and removal of abandoned ones."""

import time
from collections.abc import Sequence

import structlog
from django.conf import settings

from agents.runtime.port import ContainerRuntime

log = structlog.get_logger(__name__)
_helpers_seen_at: dict[str, float] = {}

ABANDONED_AFTER_S = 700.0
"""Seconds after which a helper that runs once is abandoned; longer than any caller waits for one."""
NO_IMAGE = "the session image that bin/up built is not on the machine"
_ONCE = {"io.berth.once": "true"}


def helper_labels(role: str) -> dict[str, str]:
    """Return the labels of a helper that runs until it is removed."""
    return {"io.berth.installation": settings.BERTH_INSTALLATION, "io.berth.role": role}


def one_off_labels(role: str) -> dict[str, str]:
    """Return the labels of a helper that runs once; it is removed even if its caller has died."""
    return helper_labels(role) | _ONCE


def helper_image(runtime: ContainerRuntime, image_ids: Sequence[str]) -> str | None:
    """Return the first of these images that is on the machine. Raises RuntimeFault.
    `image_ids` are images that may run as root on machines (`images.selectors.built_image_ids`).
    """
    return next((each for each in image_ids if runtime.inspect_image(each) is not None), None)


def reap_helpers(runtime: ContainerRuntime) -> None:
    """Remove helpers that run once and whose process died before removing them: those seen for longer
    than a helper may take. Raises RuntimeFault.
    """
    now = time.monotonic()
    ours = {"io.berth.installation": settings.BERTH_INSTALLATION} | _ONCE
    for name in {state.name for state in runtime.list_containers(ours)}:
        if now - _helpers_seen_at.setdefault(name, now) >= ABANDONED_AFTER_S:
            log.warning("helper.reaped", container=name)
            runtime.remove_container(name)
            del _helpers_seen_at[name]
