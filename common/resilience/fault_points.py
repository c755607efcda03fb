"""Fault-injection points: named places where a test can pause a process, to kill it exactly there.
Inactive unless `BERTH_PAUSES` names a folder; `bin/up` never sets it.

A point is passed inside a section of work (`during("launch")`) and is named after both:
`launch.ensure_network`. Passed again in the same section it gets a number:
`launch.inspect_container.2`. The points of a launch thus follow from its code.

In the folder: `passed` has one line `<point> <pid>` per point passed; a file `hold.<point>` pauses
the first process that passes the point, and is renamed to `held.<point>` with that process's id in
it. The process waits until the file is gone.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

LOOKED_EVERY_S = 0.02

_folder = os.environ.get("BERTH_PAUSES", "")


@dataclass(slots=True)
class _Stretch:
    name: str
    passed: Counter[str] = field(default_factory=Counter)


_stretch: ContextVar[_Stretch | None] = ContextVar("stretch_of_work", default=None)


@contextmanager
def during(name: str) -> Iterator[None]:
    """Assign the points passed inside the block to this section of work."""
    token = _stretch.set(_Stretch(name))
    try:
        yield
    finally:
        _stretch.reset(token)


def pause(point: str) -> None:
    """Pass a point; wait while a test holds it."""
    if not _folder:
        return
    stretch = _stretch.get()
    if stretch is None:
        return
    stretch.passed[point] += 1
    count = stretch.passed[point]
    _pass(Path(_folder), f"{stretch.name}.{point}{f'.{count}' if count > 1 else ''}")


def _pass(folder: Path, name: str) -> None:
    with (folder / "passed").open("a") as passed:
        passed.write(f"{name} {os.getpid()}\n")
    held = folder / f"held.{name}"
    try:
        (folder / f"hold.{name}").rename(held)  # atomic: only one process is held
    except FileNotFoundError:
        return
    held.write_text(str(os.getpid()))
    while held.exists():
        time.sleep(LOOKED_EVERY_S)
