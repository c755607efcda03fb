"""Pages of resource policies and limits."""
