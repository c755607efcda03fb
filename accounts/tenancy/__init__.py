"""Domains, projects and users: their whole life, from invitation to offboarding."""
