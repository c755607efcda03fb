"""Browser and system of a User-Agent header in plain words: “Firefox on Windows”."""

from common.i18n import gettext as _

# First match wins: most browsers also name others.
PROGRAMS = (
    ("berth/", "berth"),
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("Wget/", "Wget"),
    ("python", "Python"),
)
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


def device_name(user_agent: str) -> str:
    """Return program and system as far as known; "" if neither is."""
    program = _first(PROGRAMS, user_agent)
    system = _first(SYSTEMS, user_agent)
    if program and system:
        return _("{program} on {system}").format(program=program, system=system)
    return program or system


def _first(known: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in known if mark in text), "")
