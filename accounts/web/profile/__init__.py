"""Pages of one's own profile."""
