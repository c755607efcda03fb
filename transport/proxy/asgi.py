"""The ASGI types, as the server defines them."""

from transport.server.asgi import AsgiApp, Message, Receive, Scope, Send

__all__ = ["AsgiApp", "Message", "Receive", "Scope", "Send"]
