"""Why a request did not get its answer. All are raised before the first byte went to the client."""


class UpstreamError(Exception):
    """The app gave no usable answer."""


class UpstreamUnreachable(UpstreamError):
    """Nothing accepts connections at the target: not started yet, stopped, or another port."""


class UpstreamBroken(UpstreamError):
    """The app accepted the connection, then closed it or spoke something that is not HTTP/1.1."""


class UpstreamTimeout(UpstreamError):
    """The app accepted the request and stayed silent for longer than the limit."""


class RequestRefused(Exception):
    """The request's framing is ambiguous (smuggling) or malformed; nothing was sent upstream."""
