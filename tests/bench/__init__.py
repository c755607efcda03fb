"""Measurements, never tests: what they print depends on the machine, so they compare within one run."""
