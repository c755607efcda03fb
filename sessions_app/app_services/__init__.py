"""Apps of sessions: addresses and start."""
