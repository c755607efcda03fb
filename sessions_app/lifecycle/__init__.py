"""Transitions of sessions between statuses; no other package writes the status."""
