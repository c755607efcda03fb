"""Commands `exec` and `shell`: run commands and shells in running sessions."""

import os
import sys
from typing import Annotated

import typer

from berth.cli.context import Kernel, SessionName, get_client
from berth.cli.exits import FAILED
from berth.cli.launch_options import Environment, parse_environment
from berth.cli.output import note
from berth.cli.terminal import check_terminal, converse, window_size
from berth.errors import InvalidInput
from berth.files import in_session


def exec_command(
    context: typer.Context,
    session: SessionName,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…", help="Command to run, after --, without a shell.", show_default=False
        ),
    ],
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", "-i", help="Pass standard input to the command; by default it is empty."
        ),
    ] = False,
    terminal: Annotated[
        bool, typer.Option("--tty", "-t", help="Run it in a terminal, connected to this one.")
    ] = False,
    env: Environment = None,
    directory: Annotated[
        str,
        typer.Option(
            "--workdir", "-w", help="Working directory; by default that of the image.", show_default=False
        ),
    ] = "",
    kernel: Kernel = "main1",
) -> None:
    """Run a command in a running session, and end with its exit code.

    The command ends when this one ends. Use a batch session or tmux for commands that must
    continue.
    """
    if not any(command):
        raise InvalidInput("Say what to run.", hint="berth exec SESSION -- ls -l")
    if terminal:
        check_terminal()
    client = get_client(context)
    found = client.sessions.find(session)
    process = found.open_process(
        *command,
        tty=terminal,
        env=parse_environment(env) | (_terminal_variables() if terminal else {}),
        cwd=in_session(directory) if directory else "",
        size=window_size(),
        kernel=kernel,
    )
    with process:
        code = converse(process, has_input=interactive or terminal, has_terminal=terminal)
    _leave(code)


def shell(context: typer.Context, session: SessionName, kernel: Kernel = "main1") -> None:
    """Open a shell in a running session. The shell ends with this command."""
    check_terminal()
    found = get_client(context).sessions.find(session)
    note(f"{found.name} ({found.id[:8]}); leave with Ctrl-D.")
    process = found.open_process(tty=True, env=_terminal_variables(), size=window_size(), kernel=kernel)
    with process:
        code = converse(process, has_input=True, has_terminal=True)
    _leave(code)


def _terminal_variables() -> dict[str, str]:
    return {"TERM": os.environ.get("TERM") or "xterm-256color"}


def _leave(code: int | None) -> None:
    sys.stdout.flush()
    if code is None:
        note("berth: the command ended; nobody knows its exit code.")
    raise typer.Exit(FAILED if code is None else code)
