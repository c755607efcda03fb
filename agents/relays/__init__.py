"""Ways of the gateway to the sessions on remote machines: relays, and tunnels where those are not reached."""
