"""States, usable capacity and limits of groups. Pure."""
