"""A simulated cluster and demo data."""
