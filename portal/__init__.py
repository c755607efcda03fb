"""Floor 7: the composition root. Nothing imports it; it wires every other room together."""
