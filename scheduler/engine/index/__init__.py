"""Indexes that find agents with enough capacity quickly."""
