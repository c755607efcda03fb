"""Rules of the house that no import contract can say."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps

from common.dispatch import QUEUE_OF, TaskName
from portal.beat import PERIODS_S
from portal.celery import app
from sessions_app.states import TRANSITIONS, Status

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accounts", "agents", "common", "images", "portal", "scheduler", "sessions_app", "vfolders")
STATE_DOORS = {
    "status": {"sessions_app/lifecycle.py"},
    "state": {"agents/lifecycle.py", "vfolders/lifecycle.py", "sessions_app/callbacks.py"},
}
MAX_FILE_LINES = 400


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in (ROOT / room).rglob("*.py") if "migrations" not in path.parts)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def assigned_attributes(path: Path) -> Iterator[tuple[str, int]]:
    """Names of attributes of anything but self that are assigned, and update(status=…) keywords, with lines."""
    for node in ast.walk(parsed(path)):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AugAssign | ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and not (
                isinstance(target.value, ast.Name) and target.value.id == "self"
            ):
                yield target.attr, node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            for keyword in node.keywords:
                yield keyword.arg or "", node.lineno


@pytest.mark.parametrize("attribute", sorted(STATE_DOORS))
def test_states_are_written_through_their_door_alone(attribute: str) -> None:
    writers = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources()
        if str(path.relative_to(ROOT)) not in STATE_DOORS[attribute]
        for name, line in assigned_attributes(path)
        if name == attribute
        and path.parts[-2] in {"sessions_app", "agents", "vfolders", "scheduler", "web", "api"}
    ]
    assert writers == []


def test_every_task_name_is_registered_and_every_task_is_named_here() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {name.value for name in TaskName}


def test_every_task_has_a_queue_and_time_limits() -> None:
    app.loader.import_default_modules()
    assert set(QUEUE_OF) == set(TaskName)
    for name in TaskName:
        task = app.tasks[name.value]
        assert task.soft_time_limit, f"{name} has no soft time limit"
        assert task.time_limit > task.soft_time_limit, f"{name} has no hard time limit above the soft one"


def test_whatever_an_event_starts_is_also_started_by_a_timer() -> None:
    # RECONCILE_SESSIONS starts these, the second one by one, and does what the fifth and the sixth do.
    woken_by_events = {
        TaskName.LAUNCH_SESSION,
        TaskName.LAUNCH_SESSIONS,
        TaskName.TERMINATE_SESSIONS,
        TaskName.TERMINATE_SESSION,
        TaskName.SETTLE_DEPENDENTS,
        TaskName.LOOK_AT_ARRAY,
    }
    assert set(PERIODS_S) == set(TaskName) - woken_by_events


def test_every_setting_from_the_environment_is_documented() -> None:
    text = (ROOT / "portal" / "settings.py").read_text()
    read = set(re.findall(r"env(?:\.\w+)?\(\s*\"([A-Z_]+)\"", text)) | set(
        re.findall(r"environ\.get\(\"([A-Z_]+)\"", text)
    )
    documented = set(
        re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    )
    assert read == documented


def test_picture_of_session_states_in_the_documents_is_the_table() -> None:
    lines = ["stateDiagram-v2", "    [*] --> PENDING"]
    for status in Status:
        lines += [f"    {status} --> {to}" for to in Status if to in TRANSITIONS[status]]
        lines += [f"    {status} --> [*]"] if status.is_terminal else []
    assert "\n".join(lines) in (ROOT / "docs" / "subsystems" / "sessions.md").read_text()


def test_files_are_one_room_each() -> None:
    long = [
        str(path.relative_to(ROOT))
        for path in sources()
        if len(path.read_text().splitlines()) > MAX_FILE_LINES
    ]
    assert long == []


def test_no_foreign_key_goes_up() -> None:
    floor = {
        "common": 0,
        "accounts": 1,
        "images": 2,
        "agents": 3,
        "vfolders": 3,
        "sessions_app": 4,
        "scheduler": 5,
    }
    for model in apps.get_models():
        label = model._meta.app_label
        for field in model._meta.get_fields():
            target = getattr(field, "remote_field", None) and field.related_model
            if field.concrete and target and label in floor and target._meta.app_label in floor:
                assert floor[target._meta.app_label] <= floor[label], (
                    f"{label}.{model.__name__}.{field.name} goes up"
                )
