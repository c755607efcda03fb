"""Starts the containers of placed sessions, and removes those of ending sessions."""
