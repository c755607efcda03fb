"""Constants for the addresses of simulated engines. Pure."""

SIMULATED = "simulated://"
"""Scheme with which every address of a simulated engine begins."""

SHARED = "shared=1"
"""Query parameter of a simulated engine whose state is in Redis instead of process memory."""
