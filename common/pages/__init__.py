"""Shared parts of pages: menus, tables, forms, error pages, htmx fragments, toasts."""
