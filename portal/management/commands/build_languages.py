"""`manage.py build_languages`: compiles translations, for the portal and for scripts."""

import json
from collections.abc import Sequence
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.conf import settings
from django.core.management.base import BaseCommand

SOURCES = Path(__file__).resolve().parent.parent.parent / "locale"


class Command(BaseCommand):
    help = "Compile portal/locale into var/languages; bin/up does it by itself."

    def handle(self, *args: object, **options: object) -> None:
        target: Path = settings.LANGUAGES_BUILT
        for source in sorted(SOURCES.glob("*/LC_MESSAGES/*.po")):
            with source.open("rb") as file:
                catalog = read_po(file)
            language = source.parent.parent.name
            if source.stem == "djangojs":
                script = target / "static" / "berth" / f"words.{language}.js"
                script.parent.mkdir(parents=True, exist_ok=True)
                script.write_text(language_script(catalog))
            else:
                compiled = target / language / "LC_MESSAGES" / f"{source.stem}.mo"
                compiled.parent.mkdir(parents=True, exist_ok=True)
                with compiled.open("wb") as out:
                    write_mo(out, catalog)


def language_script(catalog: Catalog) -> str:
    """Return the script for static/src/words.js: {English singular: [its forms]}."""
    words = {}
    for message in catalog:
        if message.id and message.string and not message.fuzzy:
            ids, forms = _as_tuple(message.id), _as_tuple(message.string)
            words[ids[0]] = forms
    return f"globalThis.berthWords = {json.dumps(words, ensure_ascii=False)};\n"


def _as_tuple(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
