"""From a placement to running containers, and back to none."""
