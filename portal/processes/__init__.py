"""Processes of the portal: web server, ASGI application, periodic tasks."""
