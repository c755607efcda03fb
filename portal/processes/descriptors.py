"""How many files and connections a process may have open."""

import resource

DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit as far as the system lets us. The usual 1024 is for programs that use select(); a request to an
    app takes two descriptors, a round of measurements one for each container that it asks about."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
