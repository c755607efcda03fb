"""Personal files and start-up scripts, and how containers get them."""
