"""Limits that a request has to meet."""
