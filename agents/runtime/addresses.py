"""Schemes of engines' addresses. Pure."""

SIMULATED = "simulated://"
"""Scheme with which every address of a simulated engine begins."""

SHARED = "shared=1"
"""Query parameter of a simulated engine whose state is in Redis instead of process memory."""

UNIX = "unix://"
TCP = "tcp://"
SSH = "ssh://"
