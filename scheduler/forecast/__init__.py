"""Forecast of when a waiting or future session starts."""
