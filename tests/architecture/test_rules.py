"""Rules of the house that no import contract can say."""

import ast
import functools
import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps

from common.messaging.dispatch import QUEUES, TaskName
from common.ports import Port, Ports
from portal.celery import app
from portal.processes.periodic import PERIODS_S
from sessions_app.core.states import TRANSITIONS, Status

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accounts", "agents", "common", "images", "portal", "scheduler", "sessions_app", "vfolders")
STATE_DOORS = {
    "status": {"sessions_app/lifecycle/transitions.py"},
    "state": {
        "agents/machines/lifecycle.py",
        "vfolders/lifecycle.py",
        "vfolders/uploads/lifecycle.py",
        "sessions_app/callbacks/delivery.py",
    },
}
ROOMS_WITH_STATES = {"agents", "scheduler", "sessions_app", "vfolders"}
STATES_OF_ENGINES = "agents/runtime/"  # what containers are in, which no row says


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from (path for path in (ROOT / room).rglob("*.py") if "migrations" not in path.parts)


@functools.cache
def assigned_attributes(source: str) -> tuple[tuple[str, int], ...]:
    """Return name and line of what is written of rows: attributes of anything but self, keywords and
    keys of update(…), fields of bulk_update(…), and columns that SQL in a text sets.
    """
    return tuple((name, node.lineno) for node in ast.walk(ast.parse(source)) for name in _written_by(node))


def _written_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets):
            yield from _attributes(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _attributes([target])
        case ast.Call(func=ast.Attribute(attr="update"), keywords=keywords):
            yield from (keyword.arg for keyword in keywords if keyword.arg)
            yield from _texts([keyword.value for keyword in keywords if keyword.arg is None])
        case ast.Call(func=ast.Attribute(attr="bulk_update" | "abulk_update"), args=args, keywords=keywords):
            yield from _texts([*args[1:], *(keyword.value for keyword in keywords)])
        case ast.JoinedStr(values=values):
            yield from columns_set_by(
                "".join(
                    getattr(part, "value", "") if isinstance(part, ast.Constant) else "x" for part in values
                )
            )
        case ast.Constant(value=str(text)):
            yield from columns_set_by(text)


def _attributes(targets: Iterable[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _attributes(target.elts)
        elif isinstance(target, ast.Attribute) and getattr(target.value, "id", "") != "self":
            yield target.attr


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        yield from (
            each.value
            for each in ast.walk(node)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def columns_set_by(sql: str) -> Iterator[str]:
    """Yield the columns that statements in this text set: the names before “=” after SET and after each comma that follows."""
    clauses = re.findall(r"\bSET\b(.*?)(?:\b(?:FROM|WHERE|RETURNING)\b|;|\Z)", sql, re.IGNORECASE | re.DOTALL)
    for clause in clauses:
        yield from re.findall(r"(?:\A|,)\s*\"?(\w+)\"?\s*=", clause)
        for names in re.findall(r"(?:\A|,)\s*\(([^()]*)\)\s*=", clause):
            yield from re.findall(r"\w+", names)


@pytest.mark.parametrize("attribute", sorted(STATE_DOORS))
def test_states_are_written_by_their_transition_function_only(attribute: str) -> None:
    writers = [
        f"{path}:{line}"
        for path in (each.relative_to(ROOT) for each in sources())
        if path.parts[0] in ROOMS_WITH_STATES and str(path) not in STATE_DOORS[attribute]
        if not str(path).startswith(STATES_OF_ENGINES)
        for name, line in assigned_attributes((ROOT / path).read_text())
        if name == attribute
    ]
    assert writers == []


@pytest.mark.parametrize(
    "source",
    [
        "session.status = x",
        "one.status, other.name = x, y",
        "sessions.filter(pk=1).update(name=x, status=y)",
        'sessions.update(**{"status": x})',
        'Session.objects.bulk_update(rows, ["name", "status"])',
        'Session.objects.bulk_update(rows, fields=("status",))',
        """cursor.execute("UPDATE session SET status = 'RUNNING' WHERE id = %s")""",
        """TEXT = f"UPDATE {TABLE} AS session SET name = coalesce(a, b), status = %(to)s FROM held" """,
        """TEXT = f"INSERT INTO {TABLE} VALUES (1) ON CONFLICT (id) DO UPDATE SET \\"status\\" = x" """,
        """TEXT = "update session set (name, status) = (1, 2)" """,
    ],
)
def test_write_past_the_transition_function_is_found(source: str) -> None:
    assert "status" in {name for name, _ in assigned_attributes(source)}


def test_what_only_reads_a_status_is_no_write() -> None:
    source = (
        """TEXT = f"UPDATE {TABLE} SET name = 'x' FROM other WHERE status = 'RUNNING' AND state = 'x'" """
    )
    assert {"status", "state"}.isdisjoint(name for name, _ in assigned_attributes(source))


def test_every_task_name_is_registered_and_every_task_is_named_here() -> None:
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {name.value for name in TaskName}


def test_every_task_has_a_queue_and_time_limits() -> None:
    app.loader.import_default_modules()
    assert set(QUEUES) == set(TaskName)
    for name in TaskName:
        task = app.tasks[name.value]
        assert task.soft_time_limit, f"{name} has no soft time limit"
        assert task.time_limit > task.soft_time_limit, f"{name} has no hard time limit above the soft one"


def test_whatever_an_event_starts_is_also_started_by_a_timer() -> None:
    # RECONCILE_SESSIONS starts the first two, and does what the others do.
    woken_by_events = {
        TaskName.LAUNCH_SESSION,
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


STATEFUL = {
    "ConcurrencyLimit", "ContextVar", "Counter", "Event", "GroupCache", "KeyedPool", "Lock", "UpdateDispatcher",
    "OrderedDict", "RLock", "RevocationDispatcher", "ThreadPoolExecutor", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict",
    "deque", "dict", "list", "set",
}  # fmt: skip


def module_state(path: Path) -> Iterator[str]:
    """Names of a module, not constants, that hold empty containers, locks or pools, or that a function assigns."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        made = called.partition("[")[0].rpartition(".")[2]
        if made in STATEFUL or ast.unparse(node.value) in ("[]", "{}"):
            names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
            yield from (name for name in names[:1] if not name.isupper())


def test_state_of_processes_is_listed_in_the_documents() -> None:
    rows = (ROOT / "docs" / "subsystems" / "operations.md").read_text().splitlines()
    missing = [
        f"{file}: {name}"
        for path in sources()
        for file in (str(path.relative_to(ROOT)),)
        for name in module_state(path)
        if not file.startswith("portal/ops/")
        and not any(f"`{file}`" in row and f"`{name}`" in row for row in rows)
    ]
    assert missing == []


def test_files_named_in_documents_exist() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    ends = {"/".join(parts[at:]) for parts in (file.split("/") for file in files) for at in range(len(parts))}
    documents = [
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs" / "adr").glob("*.md"),
        *(ROOT / "docs" / "subsystems").glob("*.md"),
    ]
    missing = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in documents
        if "Superseded" not in (text := path.read_text())
        for quoted in re.findall(r"`([^`]+)`", text)
        for word in quoted.split()
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)+\.(py|html|js|sh|sql|css)", word) and word not in ends
    ]
    assert missing == []


def test_ports_are_the_only_registration_hooks() -> None:
    """An app below uses one above by a port. Menus are a registry of their own; an agent is registered by a person."""
    hooks = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sources()
        if path.name != "menu.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("register")
    }
    assert hooks == {"agents/machines/service.py:register_agent", "common/pages/navigation.py:register"}


def test_every_port_is_connected() -> None:
    modules = [import_module(f"{room}.ports") for room in ROOMS if (ROOT / room / "ports.py").exists()]
    ports = [port for module in modules for port in vars(module).values() if isinstance(port, Port | Ports)]
    assert len(ports) >= 12
    for port in ports:
        assert port.get()
        assert port.name.partition(".")[0] in ROOMS


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
