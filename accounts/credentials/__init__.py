"""API keypairs, SSH keys and the request rate limit of tokens."""
