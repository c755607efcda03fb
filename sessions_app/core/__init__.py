"""Values and rules of sessions: states, requests, container specs. Pure."""
