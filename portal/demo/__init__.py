"""Simulated cluster and demo data."""
