"""ASGI types, as defined by transport.server."""

from transport.server.asgi import AsgiApp, Message, Receive, Scope, Send

__all__ = ["AsgiApp", "Message", "Receive", "Scope", "Send"]
