"""Code of bin/up and bin/down, on the standard library only, as it runs before .venv exists."""
