"""Named points at which a test may hold a process, to kill it exactly there. Nothing happens, and nothing is read from
disk, unless `BERTH_PAUSES` names a folder; `bin/up` never sets it.

A point is passed inside a stretch of work (`during("launch")`) and is named by the code that passes it:
`launch.ensure_network`. Passed again in the same stretch it gets a number: `launch.inspect_container.2`. So the points
of a launch are those that its code passes, whatever it comes to be.

In the folder: `passed` has one line `<point> <pid>` for each point passed; a file `hold.<point>` holds the first who
passes there, and is renamed to `held.<point>` with that process's id in it. Who is held waits until the file is gone.
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
    """Points that are passed inside belong to this stretch of work."""
    token = _stretch.set(_Stretch(name))
    try:
        yield
    finally:
        _stretch.reset(token)


def pause(point: str) -> None:
    """Pass a point; wait there for as long as a test holds it."""
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
        (folder / f"hold.{name}").rename(held)  # in one step: only one is held
    except FileNotFoundError:
        return
    held.write_text(str(os.getpid()))
    while held.exists():
        time.sleep(LOOKED_EVERY_S)
