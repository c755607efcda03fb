"""Refusals that HTTP and RFC 4918 have for WebDAV alone."""

from typing import ClassVar

from common.errors import BerthError


class DavRefusal(BerthError):
    """A refusal with the name of the precondition of the RFC that failed, "" for none."""

    condition: ClassVar[str] = ""


class MethodNotAllowed(DavRefusal):
    """The method cannot be used for this kind of resource."""

    default_code = "method_not_allowed"
    http_status = 405


class NoSuchLock(DavRefusal):
    """No lock with this token covers the resource."""

    default_code = "no_such_lock"
    http_status = 409
    condition = "lock-token-matches-request-uri"


class PreconditionFailed(DavRefusal):
    """A condition in the head of the request does not hold."""

    default_code = "precondition_failed"
    http_status = 412


class UnsupportedBody(DavRefusal):
    """The method takes no body."""

    default_code = "unsupported_body"
    http_status = 415


class Locked(DavRefusal):
    """A lock forbids the change."""

    default_code = "locked"
    http_status = 423
    condition = "lock-token-submitted"


class EndlessDepth(DavRefusal):
    """Whole trees are not listed in one answer."""

    default_code = "endless_depth"
    http_status = 403
    condition = "propfind-finite-depth"


class BadGateway(DavRefusal):
    """The destination is on another server."""

    default_code = "other_server"
    http_status = 502
