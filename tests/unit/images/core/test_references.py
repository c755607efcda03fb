"""Image references are parsed as engines parse them; others are refused."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.text import quoted
from images.core.references import MAX_REFERENCE, ImageReference, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4

components = st.from_regex(r"[a-z0-9]{1,8}(?:[._-][a-z0-9]{1,8}){0,2}", fullmatch=True)
repositories = st.lists(components, min_size=1, max_size=4).map("/".join)
hosts = st.one_of(
    st.just("localhost"),
    st.from_regex(r"[a-z0-9]{1,8}\.[a-z]{2,5}(?::[0-9]{2,5})?", fullmatch=True),
    st.from_regex(r"[a-z0-9]{1,8}:[0-9]{2,5}", fullmatch=True),
)
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:{}".format)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("python", ImageReference("python", tag="latest")),
        ("berth/python:1.0-a9ce", ImageReference("berth/python", tag="1.0-a9ce")),
        ("localhost/python", ImageReference("python", tag="latest", host="localhost")),
        ("hub.example:5000/a/b:c", ImageReference("a/b", tag="c", host="hub.example:5000")),
        (f"python@{DIGEST}", ImageReference("python", digest=DIGEST)),
        (f"python:3@{DIGEST}", ImageReference("python", tag="3", digest=DIGEST)),
    ],
)
def test_a_reference_is_read_as_engines_read_it(text: str, reference: ImageReference) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    "text",
    ["", ":", "python:", "Python", "a//b", "/a", "a/", "a b", "a:b:c", "a@sha256:12", "-a", "a..b/c", "a\n", "a:t\n",
     "../etc", "hub.example:port/a", "a" * (MAX_REFERENCE + 1)],
)  # fmt: skip
def test_what_is_no_reference_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an image") as refusal:
        parse_reference(text)
    assert quoted(text, 80) in str(refusal.value)


@given(host=st.just("") | hosts, repository=repositories, tag=tags, digest=st.just("") | digests)
def test_text_and_reference_are_the_same(host: str, repository: str, tag: str, digest: str) -> None:
    if (
        not host
        and "/" in repository
        and ("." in repository.split("/")[0] or repository.startswith("localhost/"))
    ):
        host = "hub.example"  # without it, the first part would be the host
    reference = ImageReference(repository, tag=tag, digest=digest, host=host)

    assert parse_reference(str(reference)) == reference
    assert reference.name == repository.split("/")[-1]


@given(st.text(string.printable, max_size=300))
def test_any_text_is_read_or_refused_and_reading_it_twice_changes_nothing(text: str) -> None:
    try:
        reference = parse_reference(text)
    except ValueError:
        return
    assert parse_reference(str(reference)) == reference
