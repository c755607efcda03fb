"""Sizes that fill storage: directories of a folder, totals by owner and host, their growth."""
