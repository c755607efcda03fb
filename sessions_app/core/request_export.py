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
from common.values.resources import CPU, MEM
from sessions_app.core.cluster import role_line
from sessions_app.core.request import FolderRequest, SessionRequest

LANGUAGES = (("cli", gettext_noop("Command line")), ("curl", "curl"), ("python", "Python"), ("yaml", "YAML"))
PLACEHOLDER = "REPLACE-ME"
FILE = "session.yaml"
STRICT = "strict_"
_PLAIN_YAML = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9_/-])?\Z|\d+[kmg]\Z")
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class RequestExample:
    """The request in one language, and a note on how to use it."""

    key: str
    text: str
    note: str


def request_examples(request: SessionRequest, portal_url: str) -> tuple[RequestExample, ...]:
    """Return the request in each of LANGUAGES, in order. `portal_url` has no trailing slash."""
    shell, fill = [], []
    if request.environment:
        shell = [_("Variables are taken from your shell.")]
        fill = [_("Put the values of your variables in place of {place}.").format(place=PLACEHOLDER)]
    sign_in = _("Sign in once: {command}").format(command=f"berth login {portal_url}")
    create = _("Save it as {file}, then: {command}").format(file=FILE, command=f"berth create -f {FILE}")
    return (
        RequestExample("cli", as_command(request), paragraph([*shell, sign_in])),
        RequestExample(
            "curl",
            as_curl(request, portal_url),
            paragraph([_("BERTH_TOKEN: a token of your profile page."), *fill]),
        ),
        RequestExample(
            "python",
            as_python(request),
            paragraph([*shell, _("With the package of the command line.")]),
        ),
        RequestExample("yaml", as_yaml(request), paragraph([*shell, create])),
    )


def as_command(request: SessionRequest) -> str:
    """Return a command for a POSIX shell, one option per line.

    Where no option can express the request, the command reads a YAML file from standard input.
    """
    has_colons = any(":" in mount.folder or ":" in mount.path for mount in request.mounts)
    if has_colons or (request.timeout_s is not None and not request.command):
        return f"berth create -f - <<'END'\n{as_yaml(request)}END"  # no line of the YAML is only END
    lines = [f"berth {'run' if request.command else 'start'} {shlex.quote(request.image)}"]
    lines += _options(request)
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
    given = "".join(f"        {name}={value},\n" for name, value in _arguments(request))
    return (
        f"{'import os' + chr(10) * 2 if request.environment else ''}"
        f"from berth import Client{', Mount' if request.mounts else ''}\n\n"
        "with Client() as client:\n"
        f"    session = client.sessions.start(\n        {python_literal(request.image)},\n{given}    )\n"
        "    print(session.id)\n"
    )


def as_yaml(request: SessionRequest) -> str:
    """Return a file for `berth create -f`.

    A variable without a value is read from the environment of the command.
    """
    return "".join(_yaml_lines(as_body(request, None)))


def as_body(request: SessionRequest, value_of_variables: str | None) -> dict[str, Any]:
    """Return the body of the REST call, without fields that have their default."""
    body = request.to_json()
    if request.environment:
        body["environment"] = dict.fromkeys(request.environment, value_of_variables)
    return body


def _option(name: str, value: str) -> str:
    return shlex.quote(f"{name}={value}") if value.startswith("-") else f"{name} {shlex.quote(value)}"


def _options(request: SessionRequest) -> Iterator[str]:
    """Yield the options of `berth run` or `berth start`, each with its value."""
    yield _option("--project", request.project)
    yield _option("--name", request.name)
    for name, amount in request.resources.to_json().items():
        is_named = name in (CPU, MEM, "shm")
        yield _option(f"--{name}", str(amount)) if is_named else _option("--resource", f"{name}={amount}")
    for name, value in as_body(request, None).items():
        yield from _options_of(request, name, value)


def _options_of(request: SessionRequest, name: str, value: Any) -> list[str]:
    """Return the options for one field of the REST body, except for those that are always given."""
    match name:
        case "environment":
            return [_option("--env", variable) for variable in value]
        case "mounts":
            return [_option("--mount", _mount_on_command_line(mount)) for mount in request.mounts]
        case "dependencies":
            return [_option("--after", f"{one.session}:{one.when}") for one in request.dependencies]
        case "cluster_size":
            return [] if request.roles else [_option("--nodes", str(value))]
        case "roles":
            return [_option("--role", role_line(role.to_json())) for role in request.roles]
        case "designated_agent":
            return [_option("--prefer-agent" if request.may_run_elsewhere else "--agent", value)]
        case "placement_rule":
            return [f"--{value.removeprefix(STRICT)}{' --strict' if value.startswith(STRICT) else ''}"]
    option = SessionRequest.fields()[name].option
    if not option:
        return []
    return [option if isinstance(value, bool) else _option(option, str(value))]


def _mount_on_command_line(mount: FolderRequest) -> str:
    return f"{mount.folder}{f':{mount.path}' if mount.path else ''}{':ro' if mount.readonly else ''}"


def _arguments(request: SessionRequest) -> Iterator[tuple[str, str]]:
    """Yield the keyword arguments of the client's `Sessions.start`, as Python."""
    amounts = request.resources.to_json()
    first = {"project": request.project, "name": request.name, CPU: amounts.pop(CPU), MEM: amounts.pop(MEM)}
    yield from ((name, python_literal(value)) for name, value in first.items())
    if amounts:
        yield "resources", python_literal(amounts)
    for name, value in as_body(request, None).items():
        match name:
            case "name" | "project" | "image" | "type" | "resources":
                pass
            case "environment":
                pairs = (
                    f"{python_literal(variable)}: os.environ[{python_literal(variable)}]"
                    for variable in value
                )
                yield name, f"{{{', '.join(pairs)}}}"
            case "mounts":
                yield name, f"[{', '.join(map(_mount_in_python, request.mounts))}]"
            case "dependencies":
                yield "after", python_literal({one.session: one.when.value for one in request.dependencies})
            case _:
                yield name, python_literal(value)


def _mount_in_python(mount: FolderRequest) -> str:
    arguments = [python_literal(mount.folder)]
    arguments += [python_literal(mount.path)] if mount.path else []
    arguments += ["readonly=True"] if mount.readonly else []
    return f"Mount({', '.join(arguments)})"


def python_literal(value: object) -> str:
    """Return a Python literal; text is in double quotes where that needs no escape."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{python_literal(name)}: {python_literal(one)}" for name, one in value.items())
            + "}"
        )
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
