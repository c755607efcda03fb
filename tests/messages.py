"""Update and check the message catalogues of all languages.

python -m tests.messages          # update portal/locale from the source; new ones are empty
python -m tests.messages --check  # list missing, stale or broken translations
                                  # (also tests/unit/portal/locale/test_message_catalogues.py)
"""

import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract, extract_python
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "portal" / "locale"
LANGUAGES = ("ko", "ja")
# {domain: kinds of files that contain its messages}
SOURCES = {
    "django": ("templates/**/*.html", *(f"{room}/**/*.py" for room in (
        "accounts", "agents", "common", "images", "portal", "scheduler", "sessions_app", "vfolders",
    ))),
    "djangojs": ("static/src/*.js",),
}  # fmt: skip
NOT_FOR_READERS = ("portal/ops/", "/migrations/", "/management/")
KEYWORDS: dict[str, Any] = {
    "_": None, "_lazy": None, "gettext": None, "gettext_lazy": None, "gettext_noop": None,
    "ngettext": (1, 2), "ngettext_lazy": (1, 2), "pgettext": ((1, "c"), 2), "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}  # fmt: skip
METHODS = {".py": extract_python, ".js": "javascript"}
PLACEHOLDER = re.compile(r"\{(\w*)\}|%\((\w+)\)s|%%")


def sentences(domain: str) -> Catalog:
    """Return all messages of the source, as an empty catalogue."""
    catalog = Catalog(project="Berth", fuzzy=False)
    for path in sorted({path for glob in SOURCES[domain] for path in ROOT.glob(glob)}):
        place = str(path.relative_to(ROOT))
        if any(part in place for part in NOT_FOR_READERS):
            continue
        with path.open("rb") as file:
            for _, ids, notes, context in extract(_method(path), file, KEYWORDS, ["Translators:"]):
                catalog.add(ids, None, [(place, 0)], auto_comments=notes, context=context)
    return catalog


def _method(path: Path) -> Any:
    return _extract_template if path.suffix == ".html" else METHODS[path.suffix]


def _extract_template(file: IO[bytes], keywords: Any, comment_tags: Any, options: Any) -> Iterator[Any]:
    """Parse a template with Django into gettext calls, one per line, for Python's extractor."""
    calls = templatize(file.read().decode(), origin=file.name)
    flat = "\n".join(line.strip() for line in calls.splitlines())
    return extract_python(BytesIO(flat.encode()), keywords, comment_tags, options)


def path_of(language: str, domain: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"{domain}.po"


def catalog_of(language: str, domain: str) -> Catalog:
    with path_of(language, domain).open("rb") as file:
        return read_po(file, locale=language, domain=domain)


def update(language: str, domain: str, source: Catalog) -> None:
    """Add new messages without translation; remove those that left the source."""
    catalog = catalog_of(language, domain)
    source.creation_date = catalog.creation_date
    catalog.update(source, no_fuzzy_matching=True)
    catalog.fuzzy = False
    with path_of(language, domain).open("wb") as out:
        write_po(out, catalog, width=120, sort_output=True, ignore_obsolete=True, include_lineno=False)


def faults(language: str, domain: str, source: Catalog) -> list[str]:
    """Return the errors of a translation; empty if it is complete and correct."""
    catalog = catalog_of(language, domain)
    known = {_key(message): message for message in catalog if message.id}
    wanted = {_key(message) for message in source if message.id}
    found = [f"not in {domain}.po: {key}" for key in wanted - known.keys()]
    found += [f"nobody says this any more: {key}" for key in known.keys() - wanted]
    for key, message in known.items():
        if message.fuzzy or not all(_forms(message)):
            found.append(f"not translated: {key}")
        elif any(_placeholders(form) != _placeholders(_ids(message)[-1]) for form in _forms(message)):
            found.append(f"other placeholders than the English sentence: {key}")
    return sorted(found)


def _key(message: Message) -> tuple[str, ...]:
    return (message.context or "", *_ids(message))


def _ids(message: Message) -> tuple[str, ...]:
    return tuple(message.id) if isinstance(message.id, (list, tuple)) else (message.id,)


def _forms(message: Message) -> tuple[str, ...]:
    return tuple(message.string) if isinstance(message.string, (list, tuple)) else (message.string,)


def _placeholders(sentence: str) -> set[str]:
    return {match.group(0) for match in PLACEHOLDER.finditer(sentence)}


def main() -> int:
    wrong = 0
    for domain in SOURCES:
        source = sentences(domain)
        for language in LANGUAGES:
            if "--check" not in sys.argv:
                update(language, domain, source)
            found = faults(language, domain, source)
            wrong += len(found)
            print(f"{language} {domain}: {len(source)} sentences, {len(found)} to mend")
            for fault in found if "--check" in sys.argv else ():
                print(f"  {fault}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
