"""Audit log for its readers: permissions, labels, and links to objects."""
