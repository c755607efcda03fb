"""Uploads into folders that go on where they stopped, by TUS 1.0: after a lost connection, and in a
later run of the program.
"""

import base64
import time
from collections.abc import Iterator

from berth.addresses import relative_path
from berth.errors import NotFound, Refused, Unreachable
from berth.transport import Content, Transport

RESUMABLE_BYTES = 16 * 2**20  # smaller files are sent anew
VERSION = {"Tus-Resumable": "1.0.0"}
PART = {"Content-Type": "application/offset+octet-stream"}
PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
PASSING_CODES = frozenset(("upload_locked", "wrong_offset"))


def write_resumable(
    transport: Transport, base: str, path: str, content: Content, size_bytes: int, stamp: str
) -> None:
    """Write `size_bytes` bytes from `content()` to a file of the folder at `base`.

    `stamp` tells versions of the source apart, such as its time of change; an upload of the same path,
    size and stamp that was interrupted is continued. Raises NotFound, Refused, Unreachable.
    """
    address = _begun(transport, base, path, size_bytes, stamp) or _create(
        transport, base, path, size_bytes, stamp
    )
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        try:
            if _append(transport, address, content, size_bytes):
                return
        except Unreachable:
            continue
        except NotFound:  # it expired or was cancelled
            address = _create(transport, base, path, size_bytes, stamp)
        except Refused as refusal:
            if refusal.code not in PASSING_CODES:
                raise
    raise Unreachable(f"“{path}” was not sent whole.", hint="Copy it again: what arrived is kept for a week.")


def _append(transport: Transport, address: str, content: Content, size_bytes: int) -> bool:
    """Send what the portal lacks; return True if it has all."""
    offset = int(transport.request("HEAD", address, headers=VERSION).headers["Upload-Offset"])
    if offset < size_bytes:
        told = {**VERSION, **PART, "Upload-Offset": str(offset), "Content-Length": str(size_bytes - offset)}
        transport.request("PATCH", address, content=lambda: _rest(content(), offset), headers=told)
    return True


def _rest(pieces: object, offset: int) -> Iterator[bytes]:
    for piece in pieces:  # type: ignore[attr-defined]
        if offset >= len(piece):
            offset -= len(piece)
        else:
            yield piece[offset:]
            offset = 0


def _begun(transport: Transport, base: str, path: str, size_bytes: int, stamp: str) -> str:
    metadata = _metadata(path, stamp)
    for each in transport.get_json(f"{base}/uploads/") if stamp else ():
        if each.get("metadata") == metadata and each.get("length_bytes") == size_bytes:
            return f"{base}/uploads/{each['id']}/"
    return ""


def _create(transport: Transport, base: str, path: str, size_bytes: int, stamp: str) -> str:
    told = {**VERSION, "Upload-Length": str(size_bytes), "Upload-Metadata": _metadata(path, stamp)}
    answer = transport.request("POST", f"{base}/uploads/", headers=told)
    name = answer.headers["Location"].rstrip("/").rpartition("/")[2]
    return f"{base}/uploads/{name}/"


def _metadata(path: str, stamp: str) -> str:
    pairs = {"path": relative_path(path), "stamp": stamp}
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
