"""Limits and garbage collection of long-running processes."""

import gc
import resource

DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit as far as allowed. The usual 1024 suits programs that use select(); a
    request to an app takes two descriptors, a measurement round one per container.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


THRESHOLD = 10_000


def freeze_startup_objects() -> None:
    """Exclude all present objects from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD, 20, 20)
