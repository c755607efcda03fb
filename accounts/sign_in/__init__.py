"""Ways in: password, directory, identity provider, second factor."""
