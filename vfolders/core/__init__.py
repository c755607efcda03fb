"""States, permissions and paths of folders. Pure."""
