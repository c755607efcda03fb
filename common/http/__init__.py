"""HTTP details: cookies, ports, user agents, downloads."""
