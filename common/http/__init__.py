"""HTTP helpers: cookies, ports, user agents, downloads."""
