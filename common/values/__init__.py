"""Values with units, and how people read them. Pure."""
