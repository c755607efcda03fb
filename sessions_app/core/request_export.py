"""Writes a request as a `berth` command, curl call, Python program or YAML file. Pure.

Values of environment variables are never written: the command, Python and YAML read them from the
environment where they run, and the curl call has a placeholder. All other values are quoted for
their language.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.i18n import gettext as _
from common.i18n import gettext_noop, paragraph
from common.values.resources import CPU, MEM, in_order
from sessions_app.core.request import DEFAULT_SHM_BYTES, FolderRequest, SessionRequest
from sessions_app.core.sizes import typed_amount

LANGUAGES = (("cli", gettext_noop("Command line")), ("curl", "curl"), ("python", "Python"), ("yaml", "YAML"))
PLACEHOLDER = "REPLACE-ME"
FILE = "session.yaml"
_PLAIN_YAML = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9_/-])?\Z|\d+[kmg]\Z")
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Way:
    """The request in one language, and a note on how to use it."""

    key: str
    text: str
    note: str


def ways_to_ask(request: SessionRequest, portal_url: str) -> tuple[Way, ...]:
    """Return the request in each of LANGUAGES, in order. `portal_url` has no trailing slash."""
    shell, fill = [], []
    if request.environment:
        shell = [_("Variables are taken from your shell.")]
        fill = [_("Put the values of your variables in place of {place}.").format(place=PLACEHOLDER)]
    sign_in = _("Sign in once: {command}").format(command=f"berth login {portal_url}")
    create = _("Save it as {file}, then: {command}").format(file=FILE, command=f"berth create -f {FILE}")
    return (
        Way("cli", as_command(request), paragraph([*shell, sign_in])),
        Way(
            "curl",
            as_curl(request, portal_url),
            paragraph([_("BERTH_TOKEN: a token of your profile page."), *fill]),
        ),
        Way(
            "python",
            as_python(request),
            paragraph([*shell, _("With the package of the command line.")]),
        ),
        Way("yaml", as_yaml(request), paragraph([*shell, create])),
    )


def as_command(request: SessionRequest) -> str:
    """Return a command for a POSIX shell, one option per line.

    Where no option can express the request, the command reads a YAML file from standard input.
    """
    has_colons = any(":" in mount.folder or ":" in mount.path for mount in request.mounts)
    if has_colons or (request.timeout_s is not None and not request.command):
        return f"berth create -f - <<'END'\n{as_yaml(request)}END"  # no line of the YAML is only END
    verb = "run" if request.command else "start"
    lines = [f"berth {verb} {shlex.quote(request.image)}"]
    lines += [_option(name, value) for name, value in _options(request)]
    if not request.personal_files:
        lines.append("--no-personal-files")
    if request.requeues:
        lines.append("--requeue")
    if request.placement_rule:
        strict, rule = "strict_", request.placement_rule
        lines.append(f"--{rule.removeprefix(strict)}{' --strict' if rule.startswith(strict) else ''}")
    if request.command:
        lines.append(f"-- {shlex.quote(request.command)}")
    return " \\\n  ".join(lines)


def as_curl(request: SessionRequest, portal_url: str) -> str:
    """Return a call of the REST API for a POSIX shell."""
    body = json.dumps(as_body(request, PLACEHOLDER), indent=2)
    return " \\\n  ".join(
        (
            f"curl --fail-with-body {shlex.quote(f'{portal_url}/api/v1/sessions/')}",
            '-H "Authorization: Bearer $BERTH_TOKEN"',
            "-H 'Content-Type: application/json'",
            f"--data {shlex.quote(body)}",
        )
    )


def as_python(request: SessionRequest) -> str:
    """Return a program that uses the client library."""
    arguments = [(name, repr_of(value)) for name, value in _keywords(request)]
    if request.environment:
        pairs = ", ".join(f"{repr_of(name)}: os.environ[{repr_of(name)}]" for name in request.environment)
        arguments.append(("environment", f"{{{pairs}}}"))
    if request.mounts:
        arguments.append(("mounts", f"[{', '.join(_mount_in_python(mount) for mount in request.mounts)}]"))
    given = "".join(f"        {name}={value},\n" for name, value in arguments)
    return (
        f"{'import os' + chr(10) * 2 if request.environment else ''}"
        f"from berth import Client{', Mount' if request.mounts else ''}\n\n"
        "with Client() as client:\n"
        f"    session = client.sessions.start(\n        {repr_of(request.image)},\n{given}    )\n"
        "    print(session.id)\n"
    )


def as_yaml(request: SessionRequest) -> str:
    """Return a file for `berth create -f`.

    A variable without a value is read from the environment of the command.
    """
    return "".join(_yaml_lines(as_body(request, None)))


def as_body(request: SessionRequest, value_of_variables: str | None) -> dict[str, Any]:
    """Return the body of the REST call, without fields that have their default."""
    body: dict[str, Any] = {
        "name": request.name,
        "project": request.project,
        "image": request.image,
        "type": request.type,
        "resources": _numbers({**_amounts(request), **_shm(request)}),
    }
    if request.resource_group:
        body["resource_group"] = request.resource_group
    if request.environment:
        body["environment"] = dict.fromkeys(request.environment, value_of_variables)
    if request.mounts:
        body["mounts"] = [_mount_body(mount) for mount in request.mounts]
    if request.command:
        body["command"] = request.command
    if request.timeout_s is not None:
        body["timeout_s"] = request.timeout_s
    if not request.personal_files:
        body["personal_files"] = False
    if request.priority:
        body["priority"] = request.priority
    if request.start_at is not None:
        body["start_at"] = request.start_at.isoformat()
    if request.pending_timeout_s is not None:
        body["pending_timeout_s"] = request.pending_timeout_s
    if request.max_retries:
        body["max_retries"] = request.max_retries
    if request.requeues:
        body["requeues"] = True
    if request.array:
        body["array"] = request.array.text
    if request.callback_url:
        body["callback_url"] = request.callback_url
    if request.designated_agent:
        body["designated_agent"] = request.designated_agent
    if request.may_run_elsewhere:
        body["may_run_elsewhere"] = True
    if request.device_model:
        body["device_model"] = request.device_model
    body |= _placed_beside(request)
    if request.dependencies:
        body["dependencies"] = [
            {"session": each.session, "when": each.when.value} for each in request.dependencies
        ]
    return body


def _placed_beside(request: SessionRequest) -> dict[str, str]:
    asked = {"placement_group": request.placement_group, "placement_rule": request.placement_rule}
    return {name: value for name, value in asked.items() if value}


def _amounts(request: SessionRequest) -> dict[str, str]:
    order = in_order(request.slots)
    return {name: typed_amount(name, request.slots[name]) for name in order}


def _shm(request: SessionRequest) -> dict[str, str]:
    is_usual = request.shm_bytes == DEFAULT_SHM_BYTES
    return {} if is_usual else {"shm": typed_amount(MEM, request.shm_bytes)}


def _numbers(amounts: Mapping[str, str]) -> dict[str, str | int | float]:
    """Return amounts without a unit as numbers."""
    return {
        name: int(text) if text.isdigit() else text if text[-1].isalpha() else float(text)
        for name, text in amounts.items()
    }


def _option(name: str, value: str) -> str:
    return shlex.quote(f"{name}={value}") if value.startswith("-") else f"{name} {shlex.quote(value)}"


def _options(request: SessionRequest) -> Iterator[tuple[str, str]]:
    yield "--project", request.project
    yield "--name", request.name
    for name, text in _amounts(request).items():
        yield (f"--{name}", text) if name in (CPU, MEM) else ("--resource", f"{name}={text}")
    for name, text in _shm(request).items():
        yield f"--{name}", text
    for name in request.environment:
        yield "--env", name
    for mount in request.mounts:
        path = f":{mount.path}" if mount.path else ""
        yield "--mount", f"{mount.folder}{path}{':ro' if mount.is_readonly else ''}"
    if request.resource_group:
        yield "--group", request.resource_group
    if request.timeout_s is not None:
        yield "--time-limit", str(request.timeout_s)
    if request.priority:
        yield "--priority", str(request.priority)
    if request.start_at is not None:
        yield "--start-at", request.start_at.isoformat()
    if request.pending_timeout_s is not None:
        yield "--pending-timeout", str(request.pending_timeout_s)
    if request.max_retries:
        yield "--retries", str(request.max_retries)
    if request.array:
        yield "--array", request.array.text
    if request.callback_url:
        yield "--callback", request.callback_url
    if request.designated_agent:
        yield "--prefer-agent" if request.may_run_elsewhere else "--agent", request.designated_agent
    if request.device_model:
        yield "--gpu-model", request.device_model
    if request.placement_group:
        yield "--placement-group", request.placement_group
    for each in request.dependencies:
        yield "--after", f"{each.session}:{each.when}"


def _keywords(request: SessionRequest) -> Iterator[tuple[str, object]]:
    yield "project", request.project
    yield "name", request.name
    amounts = _numbers({**_amounts(request), **_shm(request)})
    yield CPU, amounts.pop(CPU)
    yield MEM, amounts.pop(MEM)
    if amounts:
        yield "resources", amounts
    if request.resource_group:
        yield "resource_group", request.resource_group
    if request.command:
        yield "command", request.command
    if request.timeout_s is not None:
        yield "timeout_s", request.timeout_s
    if not request.personal_files:
        yield "personal_files", False
    if request.priority:
        yield "priority", request.priority
    if request.start_at is not None:
        yield "start_at", request.start_at.isoformat()
    if request.pending_timeout_s is not None:
        yield "pending_timeout_s", request.pending_timeout_s
    if request.max_retries:
        yield "max_retries", request.max_retries
    if request.requeues:
        yield "requeues", True
    if request.array:
        yield "array", request.array.text
    if request.callback_url:
        yield "callback_url", request.callback_url
    if request.designated_agent:
        yield "designated_agent", request.designated_agent
    if request.may_run_elsewhere:
        yield "may_run_elsewhere", True
    if request.device_model:
        yield "device_model", request.device_model
    yield from _placed_beside(request).items()
    if request.dependencies:
        yield "after", {each.session: each.when.value for each in request.dependencies}


def _mount_in_python(mount: FolderRequest) -> str:
    arguments = [repr_of(mount.folder)]
    arguments += [repr_of(mount.path)] if mount.path else []
    arguments += ["readonly=True"] if mount.is_readonly else []
    return f"Mount({', '.join(arguments)})"


def _mount_body(mount: FolderRequest) -> dict[str, object]:
    body: dict[str, object] = {"folder": mount.folder}
    if mount.path:
        body["path"] = mount.path
    if mount.is_readonly:
        body["readonly"] = True
    return body


def repr_of(value: object) -> str:
    """Return a Python literal; text is in double quotes where that needs no escape."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{repr_of(name)}: {repr_of(one)}" for name, one in value.items()) + "}"
    plain = repr(value)
    if isinstance(value, str) and plain.startswith("'") and '"' not in plain:
        return f'"{plain[1:-1]}"'
    return plain


def _yaml_lines(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for name, one in value.items():
        key = f"{indent}{_yaml_text(name)}:"
        if isinstance(one, dict):
            yield f"{key}\n"
            yield from _yaml_lines(one, f"{indent}  ")
        elif isinstance(one, list):
            yield f"{key}\n"
            for entry in one:
                yield f"{indent}  - " + "".join(_yaml_lines(entry, f"{indent}    ")).lstrip(" ")
        else:
            yield f"{key}{_yaml_scalar(one, may_be_block=not indent)}\n"


def _yaml_scalar(value: object, *, may_be_block: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return f" {json.dumps(value)}"
    text = str(value)
    has_odd = _UNSHOWN.search(text.replace("\n", "")) or text.startswith((" ", "\n"))
    is_block = may_be_block and "\n" in text and not has_odd
    if is_block and not text.endswith("\n"):
        return " |-\n" + "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
    return f" {_yaml_text(text)}"


def _yaml_text(text: str) -> str:
    """Return the text as a plain YAML word if possible, else in double quotes."""
    if _PLAIN_YAML.match(text) and text.lower() not in _YAML_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
