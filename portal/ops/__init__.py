"""What stands behind bin/up and bin/down. Standard library only: it runs before the venv exists."""
