"""Floor 4: compute sessions: their states, launch, terminal and app gateway."""
