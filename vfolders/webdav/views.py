"""Answers requests of WebDAV clients below /dav/ (RFC 4918, classes 1 and 2).

Each request is accepted by an access token alone, never by a cookie or a password, so that no page
of another origin can send one. Errors are XML with a sentence, as rclone and others show it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView, set_rollback

from accounts.api.authentication import BasicTokenAuthentication
from accounts.logins.service import request_login
from common.actors import Actor, Via
from common.errors import (
    BerthError,
    Conflict,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    TooLarge,
)
from common.rest.actor import actor_of
from common.rest.errors import as_refusal
from common.rest.request_body import Answer, RequestBody, with_body
from common.token_scopes import FOR_FOLDERS, TokenScope
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import ROOT, UnsafePath
from vfolders.core.permissions import Action
from vfolders.core.uploads import IfExists
from vfolders.files import service
from vfolders.files.http_download import download
from vfolders.files.operations import Wish, operate
from vfolders.models import FileOperation, VFolder
from vfolders.selectors import access_folder
from vfolders.storage.base import EntryExists
from vfolders.storage.trees import NameTaken
from vfolders.uploads.whole_files import receive_file
from vfolders.webdav import bodies, conditions, locks, multistatus, properties
from vfolders.webdav.addresses import Address, OtherServer, parse_address, parse_reference
from vfolders.webdav.errors import (
    BadGateway,
    DavRefusal,
    EndlessDepth,
    MethodNotAllowed,
    PreconditionFailed,
    UnsupportedBody,
)
from vfolders.webdav.locks import key_of
from vfolders.webdav.multistatus import CONTENT_TYPE
from vfolders.webdav.resources import (
    AVAILABLE,
    PROTECTED,
    Resource,
    active_locks,
    describe,
    find,
    free_bytes,
    members,
    require_describable,
    views,
)

METHODS = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, LOCK, UNLOCK"
# Windows takes the address for a web page without the second.
CAPABILITIES = {"DAV": "1, 2", "MS-Author-Via": "DAV"}
# Clients look before they write: these answers are no refusals that an administrator wants to read.
USUAL = frozenset((404, 405, 409, 412, 423))
_INFINITY = "infinity"


class DavView(APIView):
    """One resource: the list of folders, a folder, or an entry in one."""

    authentication_classes = (BasicTokenAuthentication,)
    token_scopes = FOR_FOLDERS
    token_scopes_of = {"PROPFIND": FOR_FOLDERS | {TokenScope.READ}}  # noqa: RUF012  read by the permission
    rate_factor = 10  # each file of a directory tree is two or three requests
    streamed_methods = frozenset({"PUT"})
    http_method_names = METHODS.lower().split(", ")
    schema = None  # no part of the REST document

    def options(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:  # type: ignore[override]
        return HttpResponse(headers={"Allow": METHODS, "Content-Length": "0"})

    def get(self, request: Request, place: str = "") -> HttpResponseBase:
        resource = self._existing(place)
        if resource.folder is None or resource.is_directory:
            return HttpResponse(
                _("This is an address of WebDAV. Open it with a file manager or a program for WebDAV."),
                content_type="text/plain; charset=utf-8",
            )
        opened = service.open_file(
            actor=self._actor, folder_id=resource.folder.pk, path="/".join(resource.path)
        )
        watch = AccessWatch(self._actor, resource.folder.pk, Action.READ, login=request_login(request))
        return download(request._request, opened, resource.path[-1], watch)

    def put(self, request: Request, place: str = "") -> HttpResponse:
        resource, folder = self._writable(place)
        if resource.is_directory:
            raise MethodNotAllowed(_("There is a directory of this name."))
        if "Content-Range" in request.headers:
            raise InvalidInput(_("A part of a file cannot be written."), hint=_("Send the whole file."))
        self._require_parent(resource)
        self._require_change(resource, folder, is_deep=False, is_member=not resource.is_there)
        watch = AccessWatch(self._actor, folder.pk, Action.WRITE, login=request_login(request))
        modified_s = _modified_s(request)
        if_exists = IfExists.REFUSE if _is_for_new(request) else IfExists.REPLACE

        def require() -> None:
            """Look again when the body is here, which may have taken hours."""
            now = find(self._actor, resource.address)
            self._require_change(now, folder, is_deep=False, is_member=not now.is_there)

        async def receive(body: RequestBody) -> Answer:
            try:
                published = await receive_file(
                    body,
                    actor=self._actor,
                    folder=folder,
                    path=resource.path,
                    watch=watch,
                    if_exists=if_exists,
                    modified_s=modified_s,
                    require=require,
                )
            except BerthError as error:
                if isinstance(error, EntryExists):
                    error = _changed()
                content = _error_body(error).encode()
                return Answer(_status(error), content, {"Content-Type": CONTENT_TYPE})
            headers = {"ETag": f'"{published.entry.etag}"'}
            if modified_s is not None:
                headers["X-OC-Mtime"] = "accepted"
            return Answer(204 if resource.is_there else 201, headers=headers)

        return with_body(request._request, receive, CAPABILITIES)

    def mkcol(self, request: Request, place: str = "") -> HttpResponse:
        resource, folder = self._writable(place)
        if request._request.read(1):
            raise UnsupportedBody(_("A new directory is described by no body."))
        self._check_conditions(resource)
        if resource.is_there:
            raise MethodNotAllowed(_("The name is taken."))
        self._require_parent(resource)
        self._require_change(resource, folder, is_deep=False, is_member=True)
        service.make_directory(actor=self._actor, folder_id=folder.pk, path="/".join(resource.path))
        return HttpResponse(status=201)

    def delete(self, request: Request, place: str = "") -> HttpResponse:
        resource, folder = self._writable(place)
        self._require_entry(resource)
        if resource.is_directory and _depth(request) != _INFINITY:
            raise InvalidInput(_("A directory is deleted with all that it contains."))
        self._require_change(resource, folder, is_deep=True, is_member=True)
        service.trash_entries(actor=self._actor, folder_id=folder.pk, paths=["/".join(resource.path)])
        locks.forget_locks(folder, resource.path)
        properties.forget_properties(folder, resource.path)
        return HttpResponse(status=204)

    def copy(self, request: Request, place: str = "") -> HttpResponse:
        return self._transfer(self._existing(place), FileOperation.Kind.COPY, _depth(request))

    def move(self, request: Request, place: str = "") -> HttpResponse:
        if _depth(request) != _INFINITY:
            raise InvalidInput(_("A directory is moved with all that it contains."))
        resource, _folder = self._writable(place)
        self._require_entry(resource)
        return self._transfer(resource, FileOperation.Kind.MOVE, _INFINITY)

    def propfind(self, request: Request, place: str = "") -> HttpResponseBase:
        with _xml():
            wanted = bodies.parse_propfind(self._body())
        depth = _depth(request)
        if depth == _INFINITY:
            raise EndlessDepth(_("List one directory at a time: with the header Depth: 1."))
        resource = self._existing(place)
        below = members(self._actor, resource) if depth == "1" and resource.is_directory else []
        require_describable(wanted, len(below))
        left_bytes = free_bytes(resource.folder) if AVAILABLE in wanted.names else None
        answers = (describe(wanted, view) for view in views(resource, below, left_bytes))
        return _streamed(answers) if below else _multistatus(answers)

    def proppatch(self, request: Request, place: str = "") -> HttpResponseBase:
        resource, folder = self._writable(place)
        self._require_entry(resource)
        with _xml():
            updates = bodies.parse_proppatch(self._body())
        self._require_change(resource, folder, is_deep=False, is_member=False)
        refused = {update.name for update in updates} & PROTECTED
        if not refused:
            properties.update_properties(folder, resource.path, updates)
        failed = HTTPStatus.FAILED_DEPENDENCY if refused else HTTPStatus.OK
        statuses = {
            update.name: HTTPStatus.FORBIDDEN if update.name in refused else failed for update in updates
        }
        return _multistatus([multistatus.update_response(resource.href, statuses)])

    def lock(self, request: Request, place: str = "") -> HttpResponse:
        resource, folder = self._writable(place)
        depth, timeout_s, body = _depth(request), _timeout_s(request), self._body()
        if depth == "1":
            raise InvalidInput(_("A lock has the depth 0 or infinity."))
        if not body:
            return self._refreshed(resource, folder, timeout_s)
        with _xml():
            wanted = bodies.parse_lock(body)
        self._check_conditions(resource)
        if not resource.is_there:
            self._require_parent(resource)
            self._require_change(resource, folder, is_deep=False, is_member=True)
        lock = locks.create_lock(
            actor=self._actor,
            folder=folder,
            path=resource.path,
            is_exclusive=wanted.is_exclusive,
            is_deep=depth == _INFINITY,
            owner=wanted.owner,
            timeout_s=timeout_s,
        )
        if not resource.is_there:
            try:
                service.create_file(actor=self._actor, folder_id=folder.pk, path="/".join(resource.path))
            except BerthError:
                lock.delete()
                raise
        answer = _xml_response(
            200 if resource.is_there else 201, multistatus.lock_body(active_locks(resource, [lock]))
        )
        answer["Lock-Token"] = f"<{locks.token_text(lock)}>"
        return answer

    def unlock(self, request: Request, place: str = "") -> HttpResponse:
        resource, folder = self._writable(place)
        token = request.headers.get("Lock-Token", "").strip()
        if not (token.startswith("<") and token.endswith(">")):
            raise InvalidInput(_("Lock-Token must name a lock."))
        locks.delete_lock(actor=self._actor, folder=folder, path=resource.path, token=token[1:-1])
        return HttpResponse(status=204)

    # Shared parts

    def _transfer(self, source: Resource, kind: FileOperation.Kind, depth: str) -> HttpResponse:
        """Copy or move an entry to the place that Destination names."""
        target = self._destination(source)
        if source.folder is None or target.folder is None or ROOT in (source.path, target.path):
            raise PermissionDenied(_("Whole folders are neither copied nor moved by WebDAV."))
        folder = access_folder(self._actor, target.folder.pk, Action.WRITE)
        if (folder.pk, key_of(target.path)) == (source.folder.pk, key_of(source.path)):
            raise PermissionDenied(_("The destination is where the entry is already."))
        if target.is_there and self._keeps_target:
            raise _target_exists()
        self._require_parent(target)
        tokens = self._check_conditions(source)
        if kind is FileOperation.Kind.MOVE:
            locks.require_unlocked(
                self._actor, source.folder, source.path, tokens, is_deep=True, is_member=True
            )
        locks.require_unlocked(
            self._actor, folder, target.path, tokens, is_deep=True, is_member=not target.is_there
        )
        self._carry_out(source, source.folder, target, folder, kind=kind, depth=depth)
        return HttpResponse(status=204 if target.is_there else 201)

    def _carry_out(
        self, source: Resource, of: VFolder, target: Resource, folder: VFolder, *, kind: FileOperation.Kind, depth: str
    ) -> None:  # fmt: skip
        """Copy or move in the folders; what is at the destination goes to the trash of its folder."""
        is_deep = depth != "0"
        if kind is FileOperation.Kind.COPY or of.pk != folder.pk:
            properties.require_room(of, source.path, folder, target.path, is_deep=is_deep)
        if source.is_directory and not is_deep:
            if target.is_there:
                service.trash_entries(actor=self._actor, folder_id=folder.pk, paths=["/".join(target.path)])
            service.make_directory(actor=self._actor, folder_id=folder.pk, path="/".join(target.path))
        else:
            wish = Wish(
                kind=kind,
                paths=["/".join(source.path)],
                to="/".join(target.path[:-1]),
                to_folder=folder.pk,
                name=target.path[-1],
                taken=NameTaken.REFUSE if self._keeps_target else NameTaken.REPLACE,
            )
            try:
                operate(actor=self._actor, folder_id=of.pk, wish=wish, is_at_once=True)
            except EntryExists as error:
                raise _target_exists() from error
        if kind is FileOperation.Kind.MOVE:
            locks.forget_locks(of, source.path)
            properties.move_properties(of, source.path, folder, target.path)
        else:
            properties.copy_properties(of, source.path, folder, target.path, is_deep=is_deep)

    def _destination(self, source: Resource) -> Resource:
        if not (reference := self.request.headers.get("Destination", "").strip()):
            raise InvalidInput(_("The header Destination is missing."))
        return find(self._actor, self._place(reference))

    @property
    def _keeps_target(self) -> bool:
        return self.request.headers.get("Overwrite", "T").upper() == "F"

    @property
    def _actor(self) -> Actor:
        return replace(actor_of(self.request), via=Via.WEBDAV)

    def _existing(self, place: str) -> Resource:
        resource = self._found(place)
        self._require_entry(resource)
        return resource

    def _writable(self, place: str) -> tuple[Resource, VFolder]:
        """Return the resource, whose folder the actor may write to.
        Raises NotFound, PermissionDenied, MethodNotAllowed.
        """
        resource = self._found(place)
        if resource.folder is None:
            raise MethodNotAllowed(
                _("Folders are created, renamed and deleted on the page Data, not by WebDAV.")
            )
        return resource, access_folder(self._actor, resource.folder.pk, Action.WRITE)

    def _found(self, place: str) -> Resource:
        try:
            return find(self._actor, parse_address(place))
        except UnsafePath as error:
            raise InvalidInput(str(error)) from error

    def _require_entry(self, resource: Resource) -> None:
        if not resource.is_there:
            raise NotFound(_("There is no such file or directory."))

    def _require_parent(self, resource: Resource) -> None:
        parent = find(self._actor, resource.address.parent)
        if not (parent.is_there and parent.is_directory):
            raise Conflict(_("The directory does not exist."), hint=_("Create it first."))

    def _require_change(self, resource: Resource, folder: VFolder, *, is_deep: bool, is_member: bool) -> None:
        """Require that conditions and locks allow a change. Raises PreconditionFailed, Locked."""
        tokens = self._check_conditions(resource)
        locks.require_unlocked(
            self._actor, folder, resource.path, tokens, is_deep=is_deep, is_member=is_member
        )

    def _check_conditions(self, resource: Resource) -> frozenset[str]:
        """Return the lock tokens that the request names. Raises PreconditionFailed, InvalidInput."""
        headers = self.request.headers
        try:
            lists = conditions.parse_if(headers.get("If", ""))
        except conditions.InvalidCondition as error:
            raise InvalidInput(str(error)) from error
        if not conditions.holds(lists, self._has_token(resource), self._has_etag(resource)):
            raise PreconditionFailed(_("No list of conditions of the If header holds."))
        wanted, unwanted = headers.get("If-Match", ""), headers.get("If-None-Match", "")
        if (wanted and not _matches(wanted, resource)) or (unwanted and _matches(unwanted, resource)):
            raise _changed()
        return conditions.submitted_tokens(lists)

    def _has_token(self, resource: Resource) -> Callable[[str, str], bool]:
        def has_token(address: str, token: str) -> bool:
            place = self._tagged(resource, address)
            if place is None or place.folder is None:
                return False
            return any(locks.token_text(lock) == token for lock in locks.locks_on(place.folder, place.path))

        return has_token

    def _has_etag(self, resource: Resource) -> Callable[[str, str], bool]:
        def has_etag(address: str, etag: str) -> bool:
            place = self._tagged(resource, address)
            return place is not None and bool(place.etag) and place.etag == etag

        return has_etag

    def _tagged(self, resource: Resource, reference: str) -> Resource | None:
        """Return what a list of the If header is about; None if it is not here or not visible."""
        if not reference:
            return resource
        try:
            return find(self._actor, self._place(reference))
        except BerthError:
            return None

    def _place(self, reference: str) -> Address:
        """Return the address that a header names. Raises BadGateway, InvalidInput."""
        hosts = frozenset({self.request.get_host().lower(), settings.BERTH_URL.partition("//")[2].lower()})
        try:
            return parse_reference(reference, hosts)
        except OtherServer as error:
            raise BadGateway(str(error)) from error
        except UnsafePath as error:
            raise InvalidInput(str(error)) from error

    def _refreshed(self, resource: Resource, folder: VFolder, timeout_s: int) -> HttpResponse:
        tokens = self._check_conditions(resource)
        lock = locks.refresh_lock(
            actor=self._actor, folder=folder, path=resource.path, tokens=tokens, timeout_s=timeout_s
        )
        if lock is None:
            raise PreconditionFailed(_("The entry has no lock of yours with this token."))
        return _xml_response(200, multistatus.lock_body(active_locks(resource, [lock])))

    def _body(self) -> bytes:
        body: bytes = self.request._request.read(bodies.MAX_BODY_BYTES + 1)
        if len(body) > bodies.MAX_BODY_BYTES:
            raise TooLarge(_("The body is larger than {count} bytes.").format(count=bodies.MAX_BODY_BYTES))
        return body

    # The framework

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if not settings.BERTH_WEBDAV:
            raise NotFound(_("WebDAV is switched off here."), hint=_("Use the page Data, or berth cp."))
        super().initial(request, *args, **kwargs)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        return BaseRenderer(), ""  # files are sent as they are, whatever Accept says

    def finalize_response(  # type: ignore[override]
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        answer: HttpResponseBase = super().finalize_response(request, response, *args, **kwargs)
        for name, value in CAPABILITIES.items():
            answer.headers.setdefault(name, value)
        return answer

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        error = as_refusal(exc)
        if error is None:
            raise exc
        set_rollback()
        error.is_recorded |= error.http_status in USUAL
        self.request._request.refusal = error  # type: ignore[attr-defined]  # common.audit.denied_requests records it
        answer = _xml_response(_status(error), _error_body(error))
        for name, value in error.headers().items():
            answer.headers[name] = value
        if error.http_status == HTTPStatus.UNAUTHORIZED:
            answer["WWW-Authenticate"] = self.get_authenticate_header(self.request)
        if error.http_status == HTTPStatus.METHOD_NOT_ALLOWED:
            answer["Allow"] = METHODS
        return answer


def _status(error: BerthError) -> int:
    return HTTPStatus.INSUFFICIENT_STORAGE if isinstance(error, LimitExceeded) else error.http_status


def _error_body(error: BerthError) -> str:
    """Return the body of a refusal: the condition of the RFC if there is one, and a sentence in the
    element that sabre/dav introduced and clients show.
    """
    condition = f"<D:{error.condition}/>" if isinstance(error, DavRefusal) and error.condition else ""
    sentence = multistatus.text_of(f"{error.message} {error.hint}".strip())
    return (
        f'{multistatus.HEAD}<D:error xmlns:D="DAV:" xmlns:s="http://sabredav.org/ns">'
        f"{condition}<s:message>{sentence}</s:message></D:error>\n"
    )


def _xml_response(status: int, body: str | bytes) -> HttpResponse:
    return HttpResponse(body, status=status, content_type=CONTENT_TYPE)


def _multistatus(answers: Iterable[str]) -> HttpResponse:
    return _xml_response(207, b"".join(multistatus.multistatus(answers)))


def _streamed(answers: Iterable[str]) -> StreamingHttpResponse:
    """Return a multistatus that is written as fast as the client takes it."""
    pieces = multistatus.multistatus(answers)

    async def body() -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece

    return StreamingHttpResponse(body(), status=207, content_type=CONTENT_TYPE)


@contextmanager
def _xml() -> Iterator[None]:
    """Raise an InvalidBody of the block as InvalidInput."""
    try:
        yield
    except bodies.InvalidBody as error:
        raise InvalidInput(str(error)) from error


def _depth(request: Request) -> str:
    """Return 0, 1 or infinity, which is also what a missing header means. Raises InvalidInput."""
    depth = request.headers.get("Depth", _INFINITY).strip().lower()
    if depth not in ("0", "1", _INFINITY):
        raise InvalidInput(_("Depth is 0, 1 or infinity."))
    return depth


def _timeout_s(request: Request) -> int:
    """Return the first acceptable wish for the life of a lock; the default without one."""
    wishes = request.headers.get("Timeout", "")
    for wish in wishes.split(","):
        if match := re.fullmatch(r"second-(\d{1,10})", wish.strip(), re.IGNORECASE | re.ASCII):
            return max(1, min(int(match[1]), locks.MAX_TIMEOUT_S))
        if wish.strip().lower() == "infinite":
            return locks.MAX_TIMEOUT_S
    return locks.DEFAULT_TIMEOUT_S


def _modified_s(request: Request) -> float | None:
    """Return the time of the file's last change, which programs that synchronise send (a header of
    ownCloud); None without one.
    """
    match = re.fullmatch(r"(\d{1,11})(\.\d{1,9})?", request.headers.get("X-OC-Mtime", ""), re.ASCII)
    return float(match[0]) if match else None


def _is_for_new(request: Request) -> bool:
    """Return True if the request is only to create, not to replace."""
    return request.headers.get("If-None-Match", "").strip() == "*"


def _changed() -> PreconditionFailed:
    return PreconditionFailed(_("The file has changed meanwhile, or exists already."))


def _target_exists() -> PreconditionFailed:
    return PreconditionFailed(_("There is an entry at the destination already."))


def _matches(header: str, resource: Resource) -> bool:
    """Return True if the entity tag of the resource is in an If-Match or If-None-Match header."""
    if header.strip() == "*":
        return resource.is_there
    return bool(resource.etag) and resource.etag in (each.strip() for each in header.split(","))
