"""Django admin of users, domains, projects and resource policies."""

from accounts.admin import people, policies

__all__ = ["people", "policies"]
