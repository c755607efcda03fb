"""Reverse proxy from browsers to the apps in containers."""
