"""Writes on behalf of a user are recorded in the audit log, and its codes have labels."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.contrib import admin
from django.test import RequestFactory

from accounts.models import KeyPair, ResourcePolicy, User
from common.audit.admin import AuditedAdmin
from common.audit.denied_requests import ACTION, TOKEN_ACTION
from common.models import AuditEntry
from portal.audit import labels
from tests.access.test_matrix import ROUTES
from tests.conftest import People

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accounts", "agents", "images", "portal", "scheduler", "sessions_app", "vfolders")
NO_SERVICES = ("/api/", "/migrations/", "/management/", "/web/", "/ops/", "selectors.py")
CODE = re.compile(r"[a-z]+\.[a-z_]+\Z")

RECORDERS = {
    *(
        f"common/audit/audit_log.py:{name}"
        for name in ("record", "record_many", "record_impersonation", "record_refusal")
    ),
    "sessions_app/lifecycle/transitions.py:_move",  # the history of a session names who moved it
}

# Functions that take `actor` by name and record nothing: {path:function: why}. It only gets shorter.
RECORD_NOTHING = {
    "accounts/tenancy/preferences.py:choose_columns": "how lists look to oneself",
    "accounts/tenancy/preferences.py:choose_language": "how pages look to oneself",
    "portal/notifications/service.py:choose_notifications": "what oneself is told",
    "portal/notifications/service.py:read_all_notifications": "what one has read oneself",
    "portal/notifications/service.py:read_notification": "what one has read oneself",
    "vfolders/files/service.py:is_directory": "it reads",
    "vfolders/files/service.py:list_directory": "it reads",
    "vfolders/files/service.py:measure_folder": "it reads",
    "vfolders/files/service.py:open_file": "it reads",
    "vfolders/reports/directories.py:request_count": "it has sizes counted",
    "vfolders/files/service.py:find_entry": "it reads",
    "vfolders/files/service.py:list_whole_directory": "it reads",
    "vfolders/webdav/locks.py:create_lock": "a lock ends by itself and binds WebDAV alone",
    "vfolders/webdav/locks.py:delete_lock": "a lock ends by itself and binds WebDAV alone",
    "vfolders/webdav/locks.py:refresh_lock": "a lock ends by itself and binds WebDAV alone",
    "vfolders/files/operations.py:cancel_operation": "the operation was recorded",
    "vfolders/files/service.py:list_page": "it reads",
    "vfolders/files/service.py:trashed_entries": "it reads",
    "vfolders/files/streams.py:search": "it reads",
    "vfolders/files/texts.py:read_text": "it reads",
    "vfolders/hosts/service.py:probe_host": "it reads",
    "vfolders/services.py:insert_folder": "the services that call it do",
    "vfolders/services.py:new_folder": "the services that call it do",
    "vfolders/uploads/resumable.py:create_upload": "the file is recorded when it is whole",
    "vfolders/uploads/resumable.py:find_parts": "it reads",
    "vfolders/lifecycle.py:transition": "the services that call it do",
}


# Of their pages in Django admin each change goes through a service, or is recorded where it is saved.
RECORDS_ITSELF = (User, KeyPair, ResourcePolicy)


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths]


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of the module itself: names of methods say nothing."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def recording() -> set[str]:
    """`path:name` of functions that record, themselves or through others."""
    used = {
        f"{path}:{function.name}": names_in(function, imported(path, tree))
        for path, tree in modules()
        for function in functions(tree)
    }
    known = set(RECORDERS)
    while found := {name for name, names in used.items() if names & known} - known:
        known |= found
    return known


def imported(path: str, tree: ast.Module) -> dict[str, str]:
    """{name in the module: `path:name` of the function, or path of the module}, as far as they are ours."""
    known = {function.name: f"{path}:{function.name}" for function in functions(tree)}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.ImportFrom) and node.module else ():
            of = node.module.replace(".", "/")
            as_module = f"{of}/{alias.name}.py"
            known[alias.asname or alias.name] = (
                as_module if (ROOT / as_module).exists() else f"{of}.py:{alias.name}"
            )
    return known


def names_in(function: ast.AST, known: dict[str, str]) -> set[str]:
    """`path:name` of what it calls or hands on."""
    names = {known.get(node.id, "") for node in ast.walk(function) if isinstance(node, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{known.get(node.value.id, '')}:{node.attr}")
    return names


def services() -> Iterator[str]:
    """`path:name` of public functions whose `actor` is given by name: those that write (STYLE, services)."""
    for path, tree in modules():
        if any(part in f"/{path}" for part in NO_SERVICES):
            continue
        for function in functions(tree):
            by_name = {argument.arg for argument in function.args.kwonlyargs}
            if "actor" in by_name and not function.name.startswith("_"):
                yield f"{path}:{function.name}"


def test_every_service_records_what_it_does() -> None:
    known = recording()
    assert {service for service in services() if service not in known} == set(RECORD_NOTHING)


def codes() -> set[str]:
    """Each literal that is given as `action=`, or stands where one is."""
    found = set()
    for _path, tree in modules():
        for node in ast.walk(tree):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg == "action" and isinstance(keyword.value, ast.Constant):
                    found.add(keyword.value.value)
    return {code for code in found if isinstance(code, str) and CODE.match(code)}


def test_every_recorded_action_has_words() -> None:
    assert len(codes()) > 25
    assert codes() | {ACTION, TOKEN_ACTION, "common.purge_audit"} <= set(labels.ACTIONS)


def test_what_django_admin_changes_is_recorded_in_words(people: People, rf: RequestFactory) -> None:
    request = rf.get("/admin/")
    request.user = people.superadmin
    for model, its in admin.site._registry.items():
        allowed = (
            its.has_add_permission(request),
            its.has_change_permission(request),
            its.has_delete_permission(request),
        )
        verbs = [verb for verb, may in zip(("create", "update", "delete"), allowed, strict=True) if may]
        if not verbs or model in RECORDS_ITSELF:
            continue
        assert isinstance(its, AuditedAdmin), model
        wanted = {f"{model._meta.app_label}.{verb}_{model._meta.model_name}" for verb in verbs}
        assert wanted <= set(labels.ACTIONS), model


def test_every_outcome_and_kind_of_object_has_words() -> None:
    assert set(AuditEntry.Outcome.values) == set(labels.OUTCOMES)
    assert all(apps.get_model(kind) for kind in labels.KINDS)


def test_every_id_in_an_address_names_a_kind_of_object() -> None:
    ids = {name for route in ROUTES.values() for name in route.parameters if name.endswith("_id")}
    of_others = {
        "entry_id", "announcement_id", "object_id", "content_type_id", "scope_id", "login_id", "grant_id", "tick_id",
            "reservation_id", "rule_id", "machine_invitation_id",
    }  # fmt: skip
    assert ids - of_others == set(labels.PARAMETERS) & ids
    assert set(labels.PARAMETERS.values()) <= set(labels.KINDS)
