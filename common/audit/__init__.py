"""Audit log: recording of actions, refused requests, and changes in Django admin."""
