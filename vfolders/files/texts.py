"""Reads and saves text files for the editor of the page, without losing an encoding or another
writer's change.
"""

import codecs
from dataclasses import dataclass
from uuid import UUID

from charset_normalizer import from_bytes
from charset_normalizer.constant import IANA_SUPPORTED

from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, TooLarge
from common.i18n import gettext as _
from common.values.resources import format_bytes
from vfolders import lifecycle, usage
from vfolders.core.permissions import Action
from vfolders.files.names import existing_path
from vfolders.selectors import access_folder, files_of
from vfolders.storage.base import OpenFile, WrongKind

MOST_BYTES = 2 * 2**20
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# All that `decode` returns. Not any codec of Python: "punycode" takes a minute, "idna" is none for texts.
_ENCODINGS = frozenset({"utf-8", *_MARKS.values(), *IANA_SUPPORTED})


@dataclass(frozen=True, slots=True)
class Text:
    """Content of a text file. `encoding` is a name of Python's codecs; `mark` tells if the file begins
    with a byte order mark; `newline` is that of the file: "\\n" or "\\r\\n". `text` has "\\n".
    """

    text: str
    encoding: str
    newline: str
    etag: str


class NotText(WrongKind):
    """The file is not a text, or larger than the editor takes."""

    default_code = "not_text"


class ChangedMeanwhile(Conflict):
    """The file was changed by another writer since it was read."""

    default_code = "changed_meanwhile"


def read_text(*, actor: Actor, folder_id: UUID, path: str) -> Text:
    """Return the text of a file of at most MOST_BYTES. Raises NotText."""
    folder = access_folder(actor, folder_id, Action.READ)
    files = files_of(folder)
    opened = files.open_file(existing_path(folder, path))
    content = _content(opened)
    text, encoding = decode(content)
    breaks = text.count("\r\n")
    if breaks and breaks == text.count("\n") == text.count("\r"):
        return Text(text.replace("\r\n", "\n"), encoding, "\r\n", opened.etag)
    return Text(text, encoding, "\n", opened.etag)  # mixed ones stay as they are


def _content(opened: OpenFile) -> bytes:
    with opened.stream:
        if opened.size_bytes > MOST_BYTES:
            raise NotText(
                _("The file has {size}; the editor takes at most {most}.").format(
                    size=format_bytes(opened.size_bytes), most=format_bytes(MOST_BYTES)
                ),
                hint=_("Download it, or edit it in a session."),
            )
        return opened.read_start(MOST_BYTES + 1)


def decode(content: bytes) -> tuple[str, str]:
    """Return the text and the name of its encoding. Raises NotText."""
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            try:
                return content.removeprefix(mark).decode(encoding.removesuffix("-sig")), encoding
            except UnicodeDecodeError:
                break
    if b"\0" not in content:
        try:
            return content.decode(), "utf-8"
        except UnicodeDecodeError:
            guess = from_bytes(content[: 2**16]).best()
        if guess is not None:
            try:
                return content.decode(guess.encoding), guess.encoding
            except UnicodeError:
                pass
    raise NotText(_("This is not a text file."), hint=_("Download it, or open it in a session."))


def save_text(
    *, actor: Actor, folder_id: UUID, path: str, text: str, encoding: str, newline: str, etag: str
) -> str:
    """Replace the content of a text file that is still as it was when it had this etag; "" creates a
    file that must not be there yet. Return the new etag. Readers see the old or the new content.

    Raises ChangedMeanwhile, InvalidInput (characters that the encoding lacks), TooLarge,
    LimitExceeded.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    content = _encoded(text, encoding, newline)
    if len(content) > MOST_BYTES:
        raise TooLarge(_("The text is larger than {most}.").format(most=format_bytes(MOST_BYTES)))
    target = existing_path(folder, path)
    files = files_of(folder)
    old_bytes = files.stat(target).size_bytes if etag else 0
    usage.reserve(folder, len(content))
    try:
        entry = files.replace_unchanged(target, content, etag=etag)
    except BaseException:
        usage.add_bytes(folder, -len(content))
        raise
    if entry is None:
        usage.add_bytes(folder, -len(content))
        raise ChangedMeanwhile(
            _("Somebody has changed the file since you opened it; nothing was saved."),
            hint=_("Copy your text, load the file again, and bring your changes in."),
        )
    usage.add_bytes(folder, -old_bytes)
    audit_log.record(
        actor=actor, action="vfolders.save_text", target=folder, changes={"path": "/".join(target)}
    )
    lifecycle.push_folder_change(folder)
    return entry.etag


def _encoded(text: str, encoding: str, newline: str) -> bytes:
    if newline not in {"\n", "\r\n"}:
        raise InvalidInput.at("newline", _("Line breaks are \\n or \\r\\n."))
    if encoding not in _ENCODINGS:
        raise InvalidInput.at("encoding", _("There is no encoding of this name."))
    try:
        content = text.replace("\n", newline).encode(encoding.removesuffix("-sig"))
    except UnicodeEncodeError as error:
        sentence = _("The encoding {encoding} of this file has no “{character}”.")
        raise InvalidInput.at(
            "text",
            sentence.format(encoding=encoding, character=error.object[error.start : error.start + 1]),
            hint=_("Leave the character out, or save the file in a session as UTF-8."),
        ) from error
    marks = {name: mark for mark, name in _MARKS.items()}
    return marks.get(encoding, b"") + content
