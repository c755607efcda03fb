"""Archives of images name the image that was asked for and no other."""

import io
import json
import tarfile
from collections.abc import Iterable

import pytest

from agents.runtime.docker.image_archive import checked
from agents.runtime.port import RuntimeRefused

NAME = "berth/python:1.0"
LAYER = bytes(range(256)) * 20_000
INDEX = {"manifests": [{"annotations": {"io.containerd.image.name": f"docker.io/{NAME}"}}]}


def archive(*, link: str = "", **files: object) -> bytes:
    """Return an archive of a layer and these JSON files, "__" for the dot of their names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        contents = {name.replace("__", "."): json.dumps(content).encode() for name, content in files.items()}
        for name, content in {"blobs/sha256/aa": LAYER, **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "blobs/sha256/aa"
            made.addfile(member)
    return out.getvalue()


def in_pieces(content: bytes) -> Iterable[bytes]:
    return (content[start : start + 70_001] for start in range(0, len(content), 70_001))


def test_archive_of_the_image_passes_unchanged() -> None:
    for good in (
        archive(
            manifest__json=[{"RepoTags": [NAME]}],
            index__json=INDEX,
            repositories={"berth/python": {"1.0": "a"}},
        ),
        archive(manifest__json=[{"RepoTags": None}]),
    ):
        assert b"".join(checked(in_pieces(good), NAME)) == good


@pytest.mark.parametrize(
    "bad",
    [
        archive(manifest__json=[{"RepoTags": [NAME, "debian:12"]}]),
        archive(manifest__json=[{"RepoTags": [NAME]}, {"RepoTags": ["berth/python:2.0"]}]),
        archive(repositories={"debian": {"12": "a"}}),
        archive(
            index__json={"manifests": [{"annotations": {"org.opencontainers.image.ref.name": "debian:12"}}]}
        ),
        archive(manifest__json={"RepoTags": 7}),
        archive(manifest__json=["x" * 2**21]),
        archive(link="./manifest.json"),
        archive(manifest__json=[{"RepoTags": [NAME]}])
        + archive(manifest__json=[{"RepoTags": ["debian:12"]}]),
        b"no archive at all",
    ],
    ids=["two", "second", "old", "index", "number", "large", "link", "twice", "nothing"],
)
def test_archive_that_names_another_image_is_cut_before_its_names(bad: bytes) -> None:
    sent: list[bytes] = []
    with pytest.raises(RuntimeRefused):
        sent.extend(checked(in_pieces(bad), NAME))
    assert b"debian" not in b"".join(sent)
