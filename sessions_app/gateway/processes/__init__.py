"""Terminals and processes over websockets."""
