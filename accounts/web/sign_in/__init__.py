"""Pages of signing up and signing in."""
