"""Agent states, usable capacity and limits of resource groups. Pure."""
