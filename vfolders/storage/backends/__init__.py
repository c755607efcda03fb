"""Implementations of the storage port."""
