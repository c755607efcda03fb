"""Preparation of a machine: packages, accounts, environment file, assets."""
