"""Periodic repair of differences between container engines and the database."""
