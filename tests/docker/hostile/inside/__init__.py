"""Attacks from inside a session, with nothing but the standard library."""
