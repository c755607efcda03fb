"""Notifications: what people are told, on pages and by mail."""
