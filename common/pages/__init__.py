"""Pages in general: menus, tables, forms, error pages, htmx fragments, toasts."""
