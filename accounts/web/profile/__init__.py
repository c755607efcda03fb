"""Pages of the user's own profile."""
