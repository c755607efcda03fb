"""Run the tests nearest to a change in about a minute: for each commit, not instead of `bin/test`.

python -m tests.running.changed             # changes since the last commit
python -m tests.running.changed main        # changes since `main`

A test is near to files that it imports, to views whose URLs it requests, and to what those import
or render. The nearest run first, until a minute is full. Files that may affect everything are
listed, and the result is red: they need `bin/test`.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from uuid import UUID

import django
from django.urls import Resolver404, resolve

from portal.ops.paths import CHECKOUT
from tests.running.imports import files_of, imports_of
from tests.running.needs import TESTS, matching
from tests.running.stages import FAST, NOTES, PURE, SIDE_BY_SIDE, WITHOUT_ENGINE, run

BUDGET_S = 60.0
USUAL_S = 2.0  # of a file without a measured duration
TEMPLATES = CHECKOUT / "templates"
NAMED_TEMPLATE = re.compile(r"""["']([\w/.-]+\.(?:html|txt))["']""")
UNTESTED = ("docs/", "portal/locale/", ".ci/", "CHANGELOG.md", "CONTRIBUTING.md", "README.md")
NO_TESTS = 5  # pytest's exit code if all tests were deselected
# Example values for the parameters of a URL.
EXAMPLES = ("1", str(UUID(int=0)), "x")


def main(arguments: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    changed = changed_files(arguments[0] if arguments else "HEAD")
    near = distances(changed, test_files())
    chosen = nearest(near, seconds_of_files())
    everything = sorted(file for file in changed if concerns_everything(file))
    print(f"test     | {len(chosen)} of {len(near)} files of tests that depend on the change", flush=True)
    code = run_tests(chosen) if chosen else 0
    for file in everything:
        print(f"test     | may concern everything, run bin/test: {file.relative_to(CHECKOUT)}")
    return code or bool(everything)


def changed_files(base: str) -> set[Path]:
    """Return the files that differ from this commit, including untracked ones."""
    found = set()
    for argv in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        told = subprocess.run(["git", *argv], cwd=CHECKOUT, capture_output=True, text=True, check=True)
        found |= {CHECKOUT / name for name in told.stdout.splitlines() if not name.startswith(UNTESTED)}
    return found


def test_files() -> list[Path]:
    """Return the test files that need neither engine nor browser."""
    return sorted(
        matching(
            f"tests/{path}" if path.endswith(".py") else f"tests/{path}/**/test_*.py"
            for path in (*PURE.paths, *FAST.paths)
        )
    )


def distances(changed: set[Path], tests: Iterable[Path]) -> dict[Path, int]:
    """Return the test files that use a changed file, with the number of
    steps of the shortest path.
    """
    users: dict[Path, set[Path]] = {}
    left = list(tests)
    seen = set(left)
    while left:
        file = left.pop()
        for used in used_by(file):
            users.setdefault(used, set()).add(file)
            if used not in seen:
                seen.add(used)
                left.append(used)
    found = dict.fromkeys(changed, 0)
    ring = list(changed)
    while ring:
        ring = [
            user
            for file in ring
            for user in users.get(file, ())
            if found.setdefault(user, found[file] + 1) == found[file] + 1
        ]
    return {file: found[file] for file in tests if file in found}


def used_by(file: Path) -> set[Path]:
    """Return the files that a file imports, renders or requests directly."""
    if file.suffix != ".py":
        return templates_in(file)
    found = set(imports_of(file)) - {file}
    if file.is_relative_to(TESTS):
        return found | views_in(file)
    return found | templates_in(file)


def templates_in(file: Path) -> set[Path]:
    names = NAMED_TEMPLATE.findall(file.read_text())
    return {TEMPLATES / name for name in names if (TEMPLATES / name).is_file()}


def views_in(file: Path) -> set[Path]:
    """Return the modules of views whose URLs a test contains."""
    tree = ast.parse(file.read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    texts = {text.partition("?")[0] for node in ast.walk(tree) for text in texts_of(node, constants)}
    return {path for text in texts if text.startswith("/") for path in view_at(text)}


def texts_of(node: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    """Yield possible values of a text in a test, with its constants and
    example values filled in.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        for example in EXAMPLES:
            yield "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else constants.get(part.value.id, example)
                if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
                else example
                for part in node.values
            )


@cache
def view_at(address: str) -> tuple[Path, ...]:
    try:
        view = resolve(address).func
    except Resolver404:
        return ()
    view = getattr(view, "cls", None) or getattr(view, "view_class", None) or view
    return files_of(view.__module__)[-1:]


def nearest(distances: dict[Path, int], seconds: dict[str, float]) -> list[Path]:
    """Return the nearest files that fit in a minute, short ones first
    among equals; at least one.
    """
    costs = {file: seconds.get(str(file.relative_to(CHECKOUT)), USUAL_S) for file in distances}
    chosen: list[Path] = []
    left = BUDGET_S
    for file in sorted(distances, key=lambda file: (distances[file], costs[file])):
        left -= costs[file]
        if left < 0 and chosen:
            break
        chosen.append(file)
    return chosen


def seconds_of_files() -> dict[str, float]:
    """Return the durations of files in the last run of the suite, if there was one."""
    found: dict[str, float] = {}
    for file in NOTES.glob("*.durations"):
        for name, seconds in json.loads(file.read_text()).items():
            found[name] = max(seconds, found.get(name, 0.0))
    return found


def concerns_everything(file: Path) -> bool:
    """Return True for files that may affect everything, and for tests with an engine or a browser.

    The former are imported by nobody by name: settings, requirements, migrations, fixtures.
    """
    if file.suffix != ".py":
        return not file.is_relative_to(TEMPLATES) or file.name.startswith("base")
    is_found_otherwise = "migrations" in file.parts or file.name in {"conftest.py", "settings.py"}
    return is_found_otherwise or any(
        file.is_relative_to(TESTS / name) for name in ("e2e", "docker", "faults")
    )


def run_tests(files: Iterable[Path]) -> int:
    markers = f"{WITHOUT_ENGINE} and not wide and not storage"
    argv = [sys.executable, "-m", "pytest", "-q", *SIDE_BY_SIDE, "-m", markers, "--hypothesis-profile=suite"]
    code = run([*argv, *map(str, files)]).code
    return 0 if code == NO_TESTS else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
