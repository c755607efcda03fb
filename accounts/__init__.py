"""Domains, projects, users, their roles, credentials, resource policies and budgets (floor 1)."""
