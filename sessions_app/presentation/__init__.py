"""Presentation of sessions, shared by pages and REST."""
