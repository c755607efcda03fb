"""Webhooks about the status of sessions."""
