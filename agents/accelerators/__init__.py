"""Accelerators: descriptions of vendors, probe of a machine, and what grants consist of."""
