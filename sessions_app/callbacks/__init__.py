"""Webhooks about status changes of sessions."""
