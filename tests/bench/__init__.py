"""Benchmarks. Their results depend on the machine, so they are compared only within one run."""
