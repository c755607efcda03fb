"""Requests to apps, from the browser to the container."""
