"""Addresses of engines that run nothing. Pure."""

SIMULATED = "simulated://"
"""They begin so."""

SHARED = "shared=1"
"""With this part, what they have is in Redis."""
