"""Code of bin/up and bin/down. Modules that they import use the standard library only, as they run
before .venv exists.
"""
