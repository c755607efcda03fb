"""Generate the reference of all commands, as Markdown.

python -m berth.cli.reference > docs/cli.md
"""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import typer

from berth.cli.exits import MEANINGS
from berth.cli.main import PROGRAM, app

HEAD = """\
# `berth`, command by command

Made by `python -m berth.cli.reference`; a test fails when it is stale. How to begin: [client/README.md](../client/README.md).

Every command takes `--help`. `--json` prints what the REST API gave, in its shapes. Tables become tab-separated lines where
the output is no terminal; messages, progress and questions go to standard error. Names, and whatever else other people
wrote, reach a terminal with their control characters spelled out.
"""

SETTINGS = """\
## Which portal
In this order: `--profile NAME`; `BERTH_URL` with `BERTH_TOKEN`; `BERTH_PROFILE`; the profile of the last `berth login`. With
`BERTH_URL` alone, the token that was saved for that address; with `BERTH_TOKEN` alone, the portal of the current profile.

| Variable | Meaning |
|---|---|
| `BERTH_URL` | address of the portal |
| `BERTH_TOKEN` | API token |
| `BERTH_PROFILE` | name of a saved profile |
| `BERTH_PROJECT` | project of new sessions |
| `BERTH_CA_FILE` | PEM file of an authority for the portal's certificate, besides those of the machine |
| `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` | the proxy to go through |
| `NO_COLOR` | no colours |
| `BERTH_DEBUG` | 1: where in the command a fault of it is |

Profiles are kept in `~/.config/berth/config.toml`, for their owner alone (mode 0600).
"""

Command = Any  # Typer has no public names for its command classes


def reference() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, SETTINGS, *_exit_codes(), *_commands(typer.main.get_command(app), PROGRAM)])


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n| Code | Meaning |\n|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield "\n`run` and `exec` end with the code of their command instead, once it ran.\n"


def _commands(group: Command, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield f"## `{path} {name}`\n{_text(command)}\n"
            yield from _commands(command, f"{path} {name}")
        else:
            yield from _command(command, f"{path} {name}")


def _command(command: Command, path: str) -> Iterator[str]:
    level = "##" if path.count(" ") == 1 else "###"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    yield f"{level} `{path}`\n{_text(command)}\n\n    {usage}\n"
    if command.params:
        yield "| | |\n|---|---|"
        yield from (f"| `{_usage(one)}` | {_help(one)} |" for one in arguments)
        yield from (f"| {_spelling(one)} | {_help(one)} |" for one in options)
        yield ""


def _text(command: Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _usage(argument: Command) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required else f"[{name}]"


def _spelling(option: Command) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.metavar or 'VALUE'}".replace("|", "\\|")


def _help(parameter: Command) -> str:
    parts = [str(parameter.help or "")]
    default = parameter.default
    if (
        isinstance(default, str | int)
        and not isinstance(default, bool)
        and default != ""
        and str(default) != "."
    ):
        parts.append(f"Default: {default}.")
    if parameter.envvar:
        parts.append(f"Also `{parameter.envvar}`.")
    return " ".join(parts).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
