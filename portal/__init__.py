"""Composition root: connects all apps and runs their processes. No app imports it."""
