"""Uploads into folders, received as streams."""
