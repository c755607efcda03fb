"""Limits of bytes: of folders and storage hosts, beside those of policies."""
