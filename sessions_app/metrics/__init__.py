"""Measured use of sessions."""
