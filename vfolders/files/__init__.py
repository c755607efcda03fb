"""Files inside a folder."""
