"""Values with units, and their text forms. Pure."""
