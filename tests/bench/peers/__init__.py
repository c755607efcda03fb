"""Peer programs of the benches: pinned here, installed into var/bench, never part of a portal."""
