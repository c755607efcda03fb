"""Measurements of accelerators: rounds, roll-ups and reads."""
