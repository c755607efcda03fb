"""The image build uses settings of the machine without leaving them in the image."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from portal.ops.engine import build_network, session_image
from portal.ops.engine.build_network import AptSources, build_files, parse_apt_sources
from portal.ops.engine.debian_base import Package, choose_packages, parse_packages, write_root_tar
from portal.ops.engine.image_recipe import read_recipe
from portal.ops.engine.install import ensure_engine
from portal.ops.engine.objects import connect
from portal.ops.engine.session_image import ensure_session_image
from portal.ops.errors import PreflightFailed

SECRET = "http://someone:hidden-word@127.0.0.1:9"

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: https://mirror.example/debian-security
Suites: bookworm-security
"""
ONE_LINE = """\
deb [signed-by=/x] http://mirror.example/debian bookworm main
deb-src http://no.example/debian bookworm main
# deb http://no.example/debian bookworm main
deb https://mirror.example/debian-security bookworm-security main
"""
PACKAGES = """\
Package: base
Essential: yes
Depends: tool (>= 1) | other, virtual, usrmerge | usr-is-merged
Filename: pool/base.deb
SHA256: aa

Package: usr-is-merged
Filename: pool/u.deb
SHA256: aa

Package: usrmerge
Depends: huge
Filename: pool/m.deb
SHA256: aa

Package: tool
Pre-Depends: lib:any
Filename: pool/tool.deb
SHA256: bb

Package: lib
Filename: pool/lib.deb
SHA256: cc

Package: other
Filename: pool/other.deb
SHA256: dd

Package: optional-provider
Priority: optional
Provides: virtual (= 1)
Filename: pool/o.deb
SHA256: ee

Package: required-provider
Priority: required
Provides: virtual
Filename: pool/r.deb
SHA256: ff
"""


@pytest.mark.parametrize(
    "text",
    [
        DEB822,
        ONE_LINE,
    ],
)
def test_the_mirrors_of_the_machine_are_read_in_both_forms(text: str) -> None:
    assert parse_apt_sources(text) == AptSources(
        debian="http://mirror.example/debian", security="https://mirror.example/debian-security"
    )


@pytest.mark.parametrize(
    "text", ["", "deb cdrom:[x]/ bookworm main", "deb http://ppa.example/tool stable main"]
)
def test_what_is_no_debian_mirror_is_not_used(text: str) -> None:
    assert parse_apt_sources(text) == AptSources()


def test_pip_and_proxy_settings_of_the_machine_reach_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://one.example/simple\ntimeout = 7\n[install]\nno-binary = :all:\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_INDEX_URL", "https://two.example/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///here https://three.example/simple")
    monkeypatch.setenv("HTTPS_PROXY", SECRET)

    files = build_files(folder="/mnt/machine")

    pip = files["pip.conf"].decode()
    assert "index-url = https://two.example/simple" in pip
    assert "extra-index-url = https://three.example/simple" in pip
    assert "file:" not in pip
    assert "no-binary" not in pip
    assert f"export https_proxy={SECRET}" in files["environment"].decode()


def test_the_certificates_of_the_machine_reach_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    monkeypatch.setenv("PIP_CERT", str(bundle))

    files = build_files(folder="/mnt/machine")

    assert files["ca.crt"] == b"certificates"
    assert "export PIP_CERT=/mnt/machine/ca.crt" in files["environment"].decode()


def test_essential_packages_come_with_what_they_need_and_no_more() -> None:
    chosen = [package.name for package in choose_packages(parse_packages(PACKAGES))]

    assert chosen == ["base", "lib", "required-provider", "tool", "usr-is-merged"]


def test_a_stanza_is_read_whole() -> None:
    tool = parse_packages(PACKAGES)[3]

    assert tool == Package("tool", False, "optional", (("lib",),), (), "pool/tool.deb", "bb")


def test_the_root_has_merged_folders_and_no_manuals() -> None:
    target = io.BytesIO()
    write_root_tar(
        {"one.deb": deb({"./bin/sh": "x", "./usr/share/man/man1/sh.1": "x", "./etc/motd": "x"})}, target
    )

    target.seek(0)
    with tarfile.open(fileobj=target) as root:
        names = root.getnames()
        assert root.getmember("bin").linkname == "usr/bin"
    assert {"usr/bin/sh", "etc/motd", "etc/apt/sources.list"} <= set(names)
    assert not [name for name in names if "/man/" in name or name.startswith("bin/")]
    assert len(names) == len(set(names))


def deb(files: dict[str, str]) -> bytes:
    """A Debian package with nothing but data."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    members = {"debian-binary": b"2.0\n", "data.tar.xz": data.getvalue()}
    packed = b"!<arch>\n"
    for name, content in members.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
        packed += header.encode() + content + b"\n" * (len(content) % 2)
    return packed


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe that is installed in no time, on the base that the session image stands on."""
    folder = tmp_path / "recipe"
    folder.mkdir()
    settings = {
        "name": "berth-test/recipe",
        "version": tmp_path.parent.name,
        "title": "Tiny",
        "description": "",
        "icon": "",
        "base": "debian:bookworm-slim",
        "environment": {"HOME": "/home/work", "PATH": "/usr/bin:/bin"},
        "minimum": {"cpu": "0.1"},
        "apps": [],
    }
    (folder / "recipe.json").write_text(json.dumps(settings))
    (folder / "install.sh").write_text(
        "echo '## Installing.'\ntest -s /mnt/machine/environment\necho done > /etc/made\n"
    )
    return folder


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_a_build_leaves_nothing_of_this_machine_in_the_image(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = connect(ensure_engine(print))
    ensure_session_image(print, tmp_path)  # so that the base is there
    monkeypatch.setenv("HTTPS_PROXY", SECRET)
    lines: list[str] = []
    reference = ensure_session_image(lines.append, tmp_path, recipe_folder=recipe)
    try:
        assert "Installing." in lines
        image = engine.images.get(reference)
        assert image.attrs["Config"]["Labels"]["io.berth.role"] == "session-image"
        assert image.attrs["Config"]["Labels"]["io.berth.recipe"] == read_recipe(recipe).digest
        assert image.attrs["Config"]["User"] == "work"
        assert image.attrs["Config"]["Env"] == ["HOME=/home/work", "PATH=/usr/bin:/bin"]
        assert "hidden-word" not in json.dumps([image.attrs, image.history()])
        with (tmp_path / "image.tar").open("wb") as target:
            target.writelines(image.save())
        assert names_and_contents(tmp_path / "image.tar") >= {"etc/made"}
        assert b"hidden-word" not in (tmp_path / "image.tar").read_bytes()
        assert ensure_session_image(lines.append, tmp_path, recipe_folder=recipe) == reference
    finally:
        engine.images.remove(reference)


class EngineThatOnlyImports:
    """It has no image, reaches no registry, and makes no container. `imported` and `deleted` are names of
    images. It stands for its own collections as well."""

    def __init__(self) -> None:
        self.images = self.containers = self.api = self
        self.imported: list[str] = []
        self.deleted: list[str] = []

    def get(self, reference: str) -> None:
        raise ImageNotFound(reference)

    def pull(self, reference: str) -> None:
        raise NotFound("no registry")

    def version(self) -> dict[str, str]:
        return {"Arch": "amd64"}

    def info(self) -> dict[str, Any]:
        return {}

    def import_image(self, *, repository: str, tag: str, **_: Any) -> None:
        self.imported.append(f"{repository}:{tag}")

    def create(self, *_: Any, **__: Any) -> None:
        raise APIError("", explanation="no containers today")

    def remove(self, name: str) -> None:
        self.deleted.append(name)

    def remove_container(self, name: str, **_: Any) -> None:
        raise NotFound(name)

    def close(self) -> None:
        pass


def test_two_builds_on_one_engine_take_no_image_from_each_other(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineThatOnlyImports()
    monkeypatch.setattr(session_image, "connect", lambda *_, **__: engine)
    monkeypatch.setattr(session_image.debian_base, "fetch_packages", lambda *_: {})
    for data in ("one", "other"):
        with pytest.raises(PreflightFailed, match="no containers today"):
            ensure_session_image(print, tmp_path / data, address="any", recipe_folder=recipe)
    assert len(set(engine.imported)) == 2
    assert engine.deleted == engine.imported


def names_and_contents(image: Path) -> set[str]:
    """The names in the last layer of a saved image."""
    with tarfile.open(image) as archive:
        (manifest,) = json.loads(archive.extractfile("manifest.json").read())
        with tarfile.open(fileobj=archive.extractfile(manifest["Layers"][-1])) as layer:
            return set(layer.getnames())


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_a_failed_build_says_where_to_read_and_leaves_no_container(recipe: Path, tmp_path: Path) -> None:
    ensure_session_image(print, tmp_path)
    (recipe / "install.sh").write_text("echo no server answered\nexit 7\n")

    with pytest.raises(PreflightFailed) as caught:
        ensure_session_image(print, tmp_path, recipe_folder=recipe)

    assert "exit code 7" in caught.value.message
    assert "no server answered" in caught.value.message
    assert "session-image.log" in caught.value.fix
    engine = connect(ensure_engine(print))
    commands = [one.attrs["Command"] for one in engine.containers.list(all=True, sparse=True)]
    assert not [command for command in commands if "no server answered" in command]


def test_the_suite_is_the_one_of_the_base() -> None:
    assert build_network.SUITE in AptSources().as_list()
