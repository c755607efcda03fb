"""Network settings of this machine for image builds: proxies, certificate authority, pip index, apt
mirror.

They may contain credentials: a build gets them in a volume, and none may remain in an image.
"""

import configparser
import os
import re
import shlex
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

DEBIAN_MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"
SUITE = "bookworm"

PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
CERTIFICATE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class AptSources:
    """Debian mirrors; URIs without trailing slash."""

    debian: str = DEBIAN_MIRROR
    security: str = SECURITY_MIRROR

    def as_list(self) -> str:
        """Return the lines of a sources.list."""
        return "".join(
            f"deb {uri} {suite} main\n"
            for uri, suite in (
                (self.debian, SUITE),
                (self.debian, f"{SUITE}-updates"),
                (self.security, f"{SUITE}-security"),
            )
        )


def build_files(*, folder: str) -> dict[str, bytes]:
    """Return name -> content of the files that a build finds in `folder`, readable by root and _apt
    only.

    `environment` must be sourced first: it exports the variables that point to the others.
    """
    variables = {
        **_proxy_variables(),
        "APT_CONFIG": f"{folder}/apt.conf",
        "PIP_CONFIG_FILE": f"{folder}/pip.conf",
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    files = {"sources.list": machine_apt_sources().as_list().encode(), "pip.conf": _pip_config().encode()}
    bundle = certificate_bundle()
    if bundle:
        files["ca.crt"] = bundle.read_bytes()
        for name in (*CERTIFICATE_VARIABLES, "GIT_SSL_CAINFO"):
            variables[name] = f"{folder}/ca.crt"
    files["apt.conf"] = _apt_config(folder, has_bundle=bundle is not None).encode()
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    files["environment"] = exports.encode()
    return files


def certificate_bundle() -> Path | None:
    """Return the file of certificate authorities that this machine trusts, or None."""
    candidates = [os.environ.get(name) for name in CERTIFICATE_VARIABLES]
    candidates += [_pip_settings().get("cert"), *CERTIFICATE_FILES, ssl.get_default_verify_paths().cafile]
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def machine_apt_sources() -> AptSources:
    """Return the configured mirror of a Debian machine; Debian's own servers on others."""
    if "ID=debian" not in _read(Path("/etc/os-release")).split():
        return AptSources()
    folder = Path("/etc/apt")
    texts = [_read(folder / "sources.list")]
    parts = folder / "sources.list.d"
    if parts.is_dir():
        texts += [_read(path) for path in sorted(parts.iterdir()) if path.suffix in (".list", ".sources")]
    return parse_apt_sources("\n\n".join(texts))


def parse_apt_sources(text: str) -> AptSources:
    """Return the first Debian mirrors in one-line or deb822 format; only http and https count."""
    entries = [(uri, suite) for paragraph in re.split(r"\n\s*\n", text) for uri, suite in _entries(paragraph)]
    web = [(uri.rstrip("/"), suite) for uri, suite in entries if uri.startswith(("http://", "https://"))]
    debian = [uri for uri, suite in web if uri.endswith("/debian") and not suite.endswith("-security")]
    security = [uri for uri, suite in web if suite.endswith("-security")]
    return AptSources(
        debian=debian[0] if debian else DEBIAN_MIRROR, security=security[0] if security else SECURITY_MIRROR
    )


def _entries(paragraph: str) -> list[tuple[str, str]]:
    lines = [line for line in paragraph.splitlines() if not line.lstrip().startswith("#")]
    found = re.findall(r"(?m)^deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)", "\n".join(lines))
    fields = dict(re.findall(r"(?m)^(\w[\w-]*):[ \t]*(.*)$", "\n".join(lines)))
    if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes") != "no":
        found += [
            (uri, suite)
            for uri in fields.get("URIs", "").split()
            for suite in fields.get("Suites", "").split()
        ]
    return found


def _apt_config(folder: str, *, has_bundle: bool) -> str:
    lines = [
        f'Dir::Etc::sourcelist "{folder}/sources.list";',
        'Dir::Etc::sourceparts "/dev/null";',
        'Acquire::Retries "3";',
        'APT::Install-Recommends "false";',
    ]
    if has_bundle:
        lines.append(f'Acquire::https::CAInfo "{folder}/ca.crt";')
    if shutil.which("apt-config"):
        command = ("apt-config", "shell", "http", "Acquire::http::Proxy", "https", "Acquire::https::Proxy")
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for assignment in shlex.split(answer):
            scheme, _, proxy = assignment.partition("=")
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
    return "\n".join(lines) + "\n"


def _pip_config() -> str:
    settings = {key: value for key, value in _pip_settings().items() if key in PIP_KEYS}
    for key in ("index-url", "extra-index-url"):  # local folders are not reachable in the container
        reachable = [url for url in settings.pop(key, "").split() if not url.startswith(("file:", "/"))]
        if reachable:
            settings[key] = " ".join(reachable)
    return "[global]\n" + "".join(f"{key} = {' '.join(value.split())}\n" for key, value in settings.items())


def _pip_settings() -> dict[str, str]:
    """Return pip's settings from its configuration files and from PIP_* (which take precedence),
    with names as in the files.
    """
    home = Path.home()
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    settings: dict[str, str] = {}
    for path in [*files, Path(os.environ.get("PIP_CONFIG_FILE", os.devnull))]:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(_read(path))
        except configparser.Error:
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    settings["timeout"] = settings.pop("default-timeout", settings.get("timeout", "30"))
    return settings


def _proxy_variables() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PROXY_VARIABLES:
        value = os.environ.get(name) or os.environ.get(name.upper())
        if value:
            found |= {name: value, name.upper(): value}
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
