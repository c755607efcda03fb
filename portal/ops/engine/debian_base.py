"""Builds the root file system of a minimal Debian without root and without tools, for machines that
cannot reach a container registry.

Like debootstrap, in two stages: the essential packages are fetched from the mirror and unpacked
into one tar file here; `SECOND_STAGE` then runs in a container of it and installs them properly.
"""

import concurrent.futures
import hashlib
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal.ops.engine.build_network import SUITE, AptSources, machine_apt_sources
from portal.ops.errors import PreflightFailed

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ALSO_CHOSEN = frozenset({"apt", "usr-is-merged"})  # the latter replaces usrmerge, which depends on perl
FETCH_LIMIT_S = 60
MERGED_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr since Debian 12
DROPPED = re.compile(r"usr/share/(?:doc/[^/]+/(?!copyright$)|man/|info/|locale/(?!locale\.alias$)|lintian/)")
DPKG_CONFIG = """\
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
path-exclude=/usr/share/lintian/*
force-unsafe-io
"""
SECOND_STAGE = """\
set -eu
cd /mnt/packages
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
touch /var/lib/dpkg/status /var/lib/dpkg/available
dpkg --install --force-depends ./*.deb
rm -rf /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*
"""

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Package:
    """Stanza of a Packages file; `depends` holds one tuple of alternatives per dependency."""

    name: str
    is_essential: bool
    priority: str
    depends: tuple[tuple[str, ...], ...]
    provides: tuple[str, ...]
    filename: str
    sha256: str


def fetch_packages(architecture: str, log: Log) -> dict[str, bytes]:
    """Return file name -> content of the essential packages and apt, verified by Debian's
    signature.

    Raises PreflightFailed if the mirror does not answer or verification fails.
    """
    sources = machine_apt_sources()
    log(f"Fetching the essential packages of Debian {SUITE} from {sources.debian}.")
    try:
        index = _signed_index(sources, architecture)
        chosen = choose_packages(parse_packages(index))
        with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            contents = pool.map(
                lambda package: _fetch_checked(sources, package.filename, package.sha256), chosen
            )
            return {
                Path(package.filename).name: content
                for package, content in zip(chosen, contents, strict=True)
            }
    except urllib.error.URLError as error:
        raise PreflightFailed(
            f"No container registry answers, and neither does the Debian mirror {sources.debian}: {error.reason}",
            "Give this machine access to one of them (HTTP_PROXY and HTTPS_PROXY are honoured).",
        ) from error


def parse_packages(index: str) -> list[Package]:
    """Return the stanzas of a Packages file, in order."""
    return [_parse_stanza(stanza) for stanza in index.strip().split("\n\n")]


def choose_packages(packages: Iterable[Package]) -> list[Package]:
    """Return essential packages, ALSO_CHOSEN and all their dependencies, sorted by name."""
    listed = list(packages)
    rank = {"required": 0, "important": 1, "standard": 2}
    by_name = {package.name: package for package in listed}
    providers: dict[str, Package] = {}
    for package in sorted(listed, key=lambda package: (rank.get(package.priority, 3), package.name)):
        for virtual in package.provides:
            providers.setdefault(virtual, package)

    chosen: dict[str, Package] = {}
    waiting = [package for package in listed if package.is_essential or package.name in ALSO_CHOSEN]
    while waiting:
        package = waiting.pop()
        if package.name in chosen:
            continue
        chosen[package.name] = package
        for alternatives in package.depends:
            if not ALSO_CHOSEN.isdisjoint(alternatives):
                continue
            known = [by_name.get(name) or providers.get(name) for name in alternatives]
            waiting += [candidate for candidate in known if candidate is not None][:1]
    return [chosen[name] for name in sorted(chosen)]


def write_root_tar(packages: dict[str, bytes], target: IO[bytes]) -> None:
    """Unpack the packages into one tar file, with their owners and modes."""
    seen: set[str] = set()
    with tarfile.open(fileobj=target, mode="w") as root:
        for folder in MERGED_FOLDERS:
            _add(root, seen, _link(folder, f"usr/{folder}"))
            _add(root, seen, _folder(f"usr/{folder}"))
        for content in packages.values():
            with tarfile.open(fileobj=io.BytesIO(_data_member(content))) as data:
                for member in data:
                    member.name = _merged(member.name)
                    if member.islnk():
                        member.linkname = _merged(member.linkname)
                    if member.name and not DROPPED.match(member.name):
                        _add(root, seen, member, data.extractfile(member) if member.isreg() else None)
        _add_file(root, seen, "etc/dpkg/dpkg.cfg.d/berth", DPKG_CONFIG)
        _add_file(root, seen, "etc/apt/sources.list", AptSources().as_list())


def _signed_index(sources: AptSources, architecture: str) -> str:
    release = _verified(_fetch(f"{sources.debian}/dists/{SUITE}/InRelease"), sources)
    path = f"main/binary-{architecture}/Packages.xz"
    match = re.search(rf"(?m)^ ([0-9a-f]{{64}}) +\d+ {re.escape(path)}$", release)
    if match is None:
        raise PreflightFailed(
            f"The Debian mirror {sources.debian} has no packages for the architecture {architecture}.",
            "Give this machine access to a container registry.",
        )
    content = _fetch_checked(sources, f"dists/{SUITE}/{path}", match.group(1))
    return lzma.decompress(content).decode()


def _verified(release: bytes, sources: AptSources) -> str:
    """Return the signed part of an InRelease file; without Debian's keys, fetch it by HTTPS."""
    if KEYRING.exists() and shutil.which("gpgv"):
        with tempfile.NamedTemporaryFile() as signed:
            signed.write(release)
            signed.flush()
            command = ("gpgv", "--quiet", "--keyring", str(KEYRING), "--output", "-", signed.name)
            checked = subprocess.run(command, capture_output=True, check=False)
        if checked.returncode != 0:
            raise PreflightFailed(
                f"The package list of {sources.debian} is not signed by Debian.",
                "Check the mirror of this machine (/etc/apt), or update the package debian-archive-keyring.",
            )
        return checked.stdout.decode()
    if sources.debian.startswith("http://"):
        secure = sources.debian.replace("http://", "https://", 1)
        return _fetch(f"{secure}/dists/{SUITE}/InRelease").decode()
    return release.decode()


def _fetch_checked(sources: AptSources, path: str, sha256: str) -> bytes:
    content = _fetch(f"{sources.debian}/{path}")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise PreflightFailed(
            f"{sources.debian}/{path} arrived damaged.", "Try again; a proxy in between may keep an old copy."
        )
    return content


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=FETCH_LIMIT_S) as answer:
        content: bytes = answer.read()
    return content


def _parse_stanza(stanza: str) -> Package:
    fields = dict(re.findall(r"(?m)^([A-Za-z0-9-]+): (.*)$", stanza))
    depends = ", ".join(filter(None, (fields.get("Pre-Depends"), fields.get("Depends"))))
    return Package(
        name=fields["Package"],
        is_essential=fields.get("Essential") == "yes",
        priority=fields.get("Priority", "optional"),
        depends=tuple(tuple(map(_bare_name, group.split("|"))) for group in depends.split(",") if group),
        provides=tuple(map(_bare_name, filter(None, fields.get("Provides", "").split(",")))),
        filename=fields["Filename"],
        sha256=fields["SHA256"],
    )


def _bare_name(relation: str) -> str:
    """Return a package name without version and architecture: «libc6 (>= 2.36)», «perl:any»."""
    return re.split(r"[ (:]", relation.strip(), maxsplit=1)[0]


def _data_member(package: bytes) -> bytes:
    """Return data.tar.* from a .deb, which is an ar archive."""
    for name, content in _ar_members(package):
        if name.startswith("data.tar"):
            return content
    raise ValueError("a Debian package without data.tar")


def _ar_members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    offset = len(b"!<arch>\n")
    while offset + 60 <= len(archive):
        header = archive[offset : offset + 60]
        size = int(header[48:58])
        yield header[:16].decode().strip().rstrip("/"), archive[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2


def _merged(name: str) -> str:
    """Return a member's path in a tree whose /bin, /lib… are links into /usr; "" for the root."""
    bare = name.removeprefix(".").strip("/")
    first = bare.partition("/")[0]
    return f"usr/{bare}" if first in MERGED_FOLDERS else bare


def _add(root: tarfile.TarFile, seen: set[str], member: tarfile.TarInfo, content: object = None) -> None:
    if member.name not in seen:
        seen.add(member.name)
        root.addfile(member, content)  # type: ignore[arg-type]


def _add_file(root: tarfile.TarFile, seen: set[str], name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    _add(root, seen, member, io.BytesIO(text.encode()))


def _link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def _folder(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return member
