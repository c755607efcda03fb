"""Forecast when a pending or future session starts."""
