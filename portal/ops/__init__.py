"""Code of bin/up and bin/down. What they import is standard library only: it runs before .venv exists."""
