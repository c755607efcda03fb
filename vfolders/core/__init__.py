"""States, permissions, paths and HTTP ranges of folders. Pure."""
