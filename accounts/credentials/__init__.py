"""API keypairs, SSH keys and the request rates of programs."""
