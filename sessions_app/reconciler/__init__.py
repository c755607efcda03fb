"""Loops that make engines and rows agree."""
