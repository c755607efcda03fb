"""Sharing of folders with people and projects, and hand-over to a new owner."""
