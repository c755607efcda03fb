"""Terminals and exec processes over websockets."""
