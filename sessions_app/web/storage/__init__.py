"""Pages of storage hosts."""
