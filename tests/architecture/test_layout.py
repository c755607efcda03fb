"""Sizes of files, functions and directories, and names of modules."""

import ast
import functools
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = (
    "accounts", "agents", "common", "images", "portal", "scheduler", "sessions_app", "transport", "vfolders",
)  # fmt: skip
LONG_FILE_LINES, MAX_FILE_LINES = 600, 1000
MAX_FUNCTION_LINES = 60
MAX_MODULES = 20
SPLINTER_LINES = 80
# Metaphors, participles and riddles that modules once were called.
BANNED_NAMES = {
    "asked", "asking", "at_once", "closing", "copied", "crowded", "crowds", "dealt", "demands", "doorman",
    "doors", "entrance", "entries", "foresight", "gate", "gathered", "held", "holdings", "joining", "keepers",
    "kept", "known_ends", "lanes", "leaving", "leftovers", "listening", "lobby", "looks", "marks", "moorings",
    "newcomers", "originals", "pace", "places", "proofs", "promises", "quarters", "rhythm", "standings_kept",
    "surroundings", "together", "viewing", "walls", "words",
}  # fmt: skip
# Functions that are one long list of alike calls: {file:function: why}.
LONG_FUNCTIONS = {
    "portal/web/menu.py:register": "one call per entry of the menu",
    "portal/web/style_samples.py:sample_context": "one sample per component",
}
LARGE_DIRECTORIES = {
    "client/src/berth/cli": "one module per command",
    "client/src/berth": "the library beside it",
    "tests": "what all levels share",
    "tests/client/cli": "one module per command",
    "tests/bench": "one module per benchmark, and their helpers",
    "tests/e2e": "all files share a portal and a browser",
}


@functools.cache
def sources() -> list[Path]:
    """All modules of the product but migrations."""
    folders = [ROOT / app for app in APPS] + [ROOT / "client" / "src"]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return [path for path in paths if not {"migrations", "recipes", "__pycache__"} & {*path.parts}]


@functools.cache
def modules_of_tests() -> list[Path]:
    return [path for path in sorted((ROOT / "tests").rglob("*.py")) if "__pycache__" not in path.parts]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Number of lines, without the docstring."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_files_and_functions_are_short() -> None:
    long_functions = set()
    for path in sources():
        name = str(path.relative_to(ROOT))
        lines = len(path.read_text().splitlines())
        assert lines <= MAX_FILE_LINES, f"{name} has {lines} lines: split it by concept"
        if lines > LONG_FILE_LINES:
            warnings.warn(f"{name} has {lines} lines", stacklevel=1)
        if name.startswith("client/"):
            continue
        for function in functions(path):
            if length_of(function) > MAX_FUNCTION_LINES:
                long_functions.add(f"{name}:{function.name}")
    assert long_functions == set(LONG_FUNCTIONS)


def test_a_directory_has_twenty_modules_at_most() -> None:
    modules = [path for path in [*sources(), *modules_of_tests()] if path.name != "__init__.py"]
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    assert {name for name, count in counts.items() if count > MAX_MODULES} == set(LARGE_DIRECTORIES)


def test_modules_are_named_by_nouns_of_the_field() -> None:
    modules = [*sources(), *modules_of_tests()]
    named = [path for path in modules if path.stem.removeprefix("test_") in BANNED_NAMES]
    assert [str(path.relative_to(ROOT)) for path in named] == []


# A docstring begins with a verb or with the noun of what is returned.
BANNED_FIRST_WORDS = {
    "Another", "As", "Because", "By", "Everybody", "For", "From", "How", "If", "It", "Its", "Nobody", "Of", "Once",
    "Others", "Some", "Somebody", "That", "Their", "These", "They", "This", "Those", "What", "Whatever", "When",
    "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why", "With", "Without",
}  # fmt: skip
MAX_PROSE = 105


def test_docstrings_begin_with_a_verb_or_a_noun_and_have_short_lines() -> None:
    faults = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            text = ast.get_docstring(node) or ""
            is_long = any(len(line) > MAX_PROSE for line in text.splitlines())
            if begins_badly(text) or is_long:
                faults.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text[:60]}")
    assert faults == []


def test_docstrings_of_test_modules_begin_with_a_verb_or_a_noun() -> None:
    texts = {path: ast.get_docstring(ast.parse(path.read_text())) for path in modules_of_tests()}
    assert {str(path): text for path, text in texts.items() if begins_badly(text or "")} == {}


def begins_badly(docstring: str) -> bool:
    first = docstring.split()[0].strip(",.:;“”\"'") if docstring else ""
    return first in BANNED_FIRST_WORDS or docstring.startswith("The same")
