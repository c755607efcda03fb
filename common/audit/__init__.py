"""The audit log: recording actions, refused requests, Django admin."""
