"""XML that WebDAV clients send."""

import pytest

from vfolders.webdav.bodies import (
    InvalidBody,
    PropFind,
    Wish,
    parse_lock,
    parse_propfind,
    parse_proppatch,
)

BOMB = (
    b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><propfind xmlns="DAV:"><prop>&b;</prop></propfind>'
)
FETCH = b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><propfind xmlns="DAV:"><allprop/></propfind>'
DEEP = b'<propfind xmlns="DAV:">' + b"<a>" * 5000 + b"</a>" * 5000 + b"</propfind>"
MANY = b'<propfind xmlns="DAV:"><prop>' + b"".join(b"<p%d/>" % n for n in range(300)) + b"</prop></propfind>"


def test_no_body_asks_for_all_properties() -> None:
    assert parse_propfind(b"") == PropFind(Wish.ALL)


def test_properties_are_named_with_their_namespace() -> None:
    body = b'<D:propfind xmlns:D="DAV:"><D:prop><D:getetag/><x xmlns="urn:x"/><y xmlns=""/></D:prop></D:propfind>'
    assert parse_propfind(body) == PropFind(Wish.SOME, ("{DAV:}getetag", "{urn:x}x", "y"))


@pytest.mark.parametrize(
    "body", [BOMB, FETCH, DEEP, MANY, b"<", b"<propfind/>", b'<propfind xmlns="DAV:"/>', b"\xff\xfe<a"]
)
def test_bombs_entities_and_nonsense_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        parse_propfind(body)


def test_updates_keep_their_order_and_their_xml() -> None:
    body = (
        b'<D:propertyupdate xmlns:D="DAV:" xmlns:z="urn:z"><D:remove><D:prop><z:a/></D:prop></D:remove>'
        b'<D:set><D:prop><z:b>1 &lt; 2<z:c xml:lang="de"/></z:b></D:prop></D:set></D:propertyupdate>'
    )
    removed, written = parse_proppatch(body)
    assert (removed.name, removed.xml) == ("{urn:z}a", "")
    assert written.name == "{urn:z}b"
    assert written.xml == '<ns0:b xmlns:ns0="urn:z">1 &lt; 2<ns0:c xml:lang="de" /></ns0:b>'


@pytest.mark.parametrize("scope", ["exclusive", "shared"])
def test_locks_are_exclusive_or_shared(scope: str) -> None:
    body = (
        f'<lockinfo xmlns="DAV:"><lockscope><{scope}/></lockscope><locktype><write/></locktype>'
        "<owner>me</owner></lockinfo>"
    )
    lock = parse_lock(body.encode())
    assert lock.is_exclusive == (scope == "exclusive")
    assert "me" in lock.owner
    with pytest.raises(InvalidBody):
        parse_lock(body.replace(scope, "other").encode())
