"""Find the files of the checkout that a file imports, from its text, without importing it."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from portal.ops.paths import CHECKOUT

ROOTS = (CHECKOUT, CHECKOUT / "client" / "src")


def closure_of(files: Iterable[Path]) -> set[Path]:
    """Return the files with all files of the checkout that they import, directly or indirectly."""
    found: set[Path] = set()
    left = list(files)
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left.extend(imports_of(file))
    return found


@cache
def imports_of(file: Path) -> frozenset[Path]:
    """Return the files of the checkout that this one imports directly, and their packages."""
    return frozenset(found for name in names_in(file) for found in files_of(name))


@cache
def names_in(file: Path) -> frozenset[str]:
    """Return the dotted names that a file imports; for `from a import b` both `a` and `a.b`."""
    return frozenset(_names(ast.parse(file.read_text())))


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """Return the file of a module and those of its packages; nothing if outside of the checkout."""
    parts = name.split(".")
    found = []
    for length in range(1, len(parts) + 1):
        for root in ROOTS:
            path = root.joinpath(*parts[:length])
            found += [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return tuple(found)
