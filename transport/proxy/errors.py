"""Errors of a forwarded request. All are raised before the first byte went to the client."""


class UpstreamError(Exception):
    """The app gave no usable response."""


class UpstreamUnreachable(UpstreamError):
    """No program listens at the target: app not started yet, stopped, or on another port."""


class UpstreamBroken(UpstreamError):
    """The app accepted the connection, then closed it or sent something that is not HTTP/1.1."""


class UpstreamTimeout(UpstreamError):
    """The app accepted the request and did not respond within the limit."""


class RequestRefused(Exception):
    """The request's framing is ambiguous (smuggling) or malformed; nothing was sent upstream."""
