"""Public links: downloads without an account."""
