"""Indexes by which a pass finds agents quickly."""
