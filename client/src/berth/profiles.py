"""Choose the portal and token from the environment or from the private profile file.

current = "default"
[profiles.default]
url = "https://berth.example.com"
token = "bk….…"
ca_file = "/etc/ssl/own-ca.pem"    # optional
"""

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from platformdirs import user_config_path

from berth.addresses import portal_url
from berth.errors import InvalidInput, NotSignedIn

DEFAULT_PROFILE = "default"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SIGN_IN_HINT = (
    "Sign in: berth login URL, with a token from your profile page; or set BERTH_URL and BERTH_TOKEN."
)


@dataclass(frozen=True, slots=True)
class Profile:
    """One portal and one token. The token is hidden in the representation."""

    name: str
    url: str
    token: str = field(repr=False)
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """All saved profiles, and the name of the current one."""

    current: str = DEFAULT_PROFILE
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    def with_profile(self, profile: Profile) -> "ProfileFile":
        """Return a copy that includes `profile` as the current one."""
        return replace(self, current=profile.name, profiles={**self.profiles, profile.name: profile})

    def without_profile(self, name: str) -> "ProfileFile":
        kept = {other: profile for other, profile in self.profiles.items() if other != name}
        current = self.current if self.current in kept else next(iter(kept), DEFAULT_PROFILE)
        return ProfileFile(current, kept)


def profile_path() -> Path:
    """Return `~/.config/berth/config.toml`, or the platform's equivalent.

    Raises InvalidInput if there is no home directory.
    """
    try:
        directory = user_config_path("berth")
        if not directory.is_absolute():
            raise RuntimeError  # later releases of platformdirs raise RuntimeError here
    except RuntimeError as exc:
        raise InvalidInput(
            "There is no home directory for the profiles: HOME is not set.",
            hint="Set HOME or XDG_CONFIG_HOME; or BERTH_URL and BERTH_TOKEN, which need no file.",
        ) from exc
    return directory / "config.toml"


def choose_profile(name: str = "", environment: Mapping[str, str] = os.environ) -> Profile:
    """Return the named profile; else BERTH_URL with BERTH_TOKEN; else BERTH_PROFILE; else the
    current.

    A token from the file is used only for the portal it was saved for. Raises NotSignedIn,
    InvalidInput.
    """
    url, token = environment.get("BERTH_URL", ""), environment.get("BERTH_TOKEN", "")
    ca_file = environment.get("BERTH_CA_FILE", "")
    if not name and url:
        chosen = Profile("", portal_url(url), token) if token else _saved_for(portal_url(url))
    else:
        chosen = _saved(name or environment.get("BERTH_PROFILE", ""))
        if token and not name:
            chosen = replace(chosen, token=token)
    return replace(chosen, ca_file=ca_file) if ca_file else chosen


def _saved(name: str) -> Profile:
    saved = read_profiles()
    wanted = name or saved.current
    if wanted in saved.profiles:
        return saved.profiles[wanted]
    if name:
        known = ", ".join(saved.profiles) or "none"
        raise NotSignedIn(f"There is no profile “{name}”; there are: {known}.", hint=SIGN_IN_HINT)
    raise NotSignedIn("Nobody is signed in on this computer.", hint=SIGN_IN_HINT)


def _saved_for(url: str) -> Profile:
    saved = read_profiles()
    candidates = [saved.profiles[name] for name in (saved.current,) if name in saved.profiles]
    for profile in (*candidates, *saved.profiles.values()):
        if profile.url == url:
            return profile
    raise NotSignedIn(f"There is no token for {url}.", hint=SIGN_IN_HINT)


def read_profiles() -> ProfileFile:
    """Read the profiles; an absent file has none. Raises InvalidInput if it is malformed."""
    path = profile_path()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        profiles = {
            name: Profile(name, str(one["url"]), str(one["token"]), str(one.get("ca_file", "")))
            for name, one in content.get("profiles", {}).items()
        }
        return ProfileFile(str(content.get("current", DEFAULT_PROFILE)), profiles)
    except FileNotFoundError:
        return ProfileFile()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise InvalidInput(
            f"{path} cannot be read: {exc}.", hint="Repair or remove the file, then sign in: berth login URL."
        ) from exc


def write_profiles(saved: ProfileFile) -> Path:
    """Replace the profile file atomically. Only the owner can read it at any moment."""
    path = profile_path()
    try:
        return _replace(path, _as_toml(saved))
    except OSError as exc:
        raise InvalidInput(
            f"{path} cannot be written: {exc.strerror}.",
            hint="Set XDG_CONFIG_HOME to a directory of yours; or BERTH_URL and BERTH_TOKEN, which need no file.",
        ) from exc


def _replace(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, draft = tempfile.mkstemp(dir=path.parent, prefix=".config-")  # created with mode 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return path


def check_profile_name(name: str) -> str:
    """Return `name`. Raises InvalidInput if it cannot name a profile."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"“{name[:40]}” is not a name for a profile.",
            hint="Use letters, digits, dots, dashes, underscores.",
        )
    return name


def _as_toml(saved: ProfileFile) -> str:
    lines = ["# Whoever has a token can do what you may: keep this file to yourself.", ""]
    lines.append(f"current = {_text(saved.current)}")
    for profile in saved.profiles.values():
        lines += ["", f"[profiles.{_text(profile.name)}]"]
        lines += [f"url = {_text(profile.url)}", f"token = {_text(profile.token)}"]
        lines += [f"ca_file = {_text(profile.ca_file)}"] if profile.ca_file else []
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """Return `value` as a TOML basic string: JSON, plus one character that it does not escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
