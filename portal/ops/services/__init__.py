"""Processes supervised by `bin/up`."""
