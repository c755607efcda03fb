"""Notifications on pages and by mail."""
