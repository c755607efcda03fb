"""Measured resource use of sessions."""
