"""Command `run`: run a command as a batch session and follow it to its end."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from berth.cli.accelerator_options import AcceleratorOptions
from berth.cli.arrays import progress_words
from berth.cli.context import AsJson, expand_options, get_client
from berth.cli.exits import FAILED, INTERRUPTED
from berth.cli.launch_options import LaunchOptions, parse_seconds
from berth.cli.output import is_terminal, note, say, show_facts, show_json, write_log
from berth.cli.safe_text import first_line
from berth.cli.sessions import show_progress, show_started
from berth.cli.signals import handle_signal
from berth.client import Client
from berth.errors import BerthError, InvalidInput
from berth.models import ENDED_STATUSES
from berth.sessions import Session


@expand_options
def run(
    context: typer.Context,
    options: LaunchOptions,
    accelerators: AcceleratorOptions,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…",
            help="Command to run, after --. A single word is a line of shell.",
            show_default=False,
        ),
    ],
    array: Annotated[
        str,
        typer.Option(
            "--array",
            metavar="INDICES[%MOST]",
            help="One session for each index, like 1-100, 0-9:2 or 1,3,7-9; “%10” after it: at most ten at once. Prints the id of "
            "the array and exits.",
            show_default=False,
        ),
    ] = "",
    retries: Annotated[int, typer.Option("--retries", help="Number of retries after a failure.", min=0)] = 0,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Run it again on another machine if its machine is lost.")
    ] = False,
    time_limit: Annotated[
        str, typer.Option("--time-limit", "-t", help="Time limit, like 90, 30m, 2h or 1d.")
    ] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the id and exit.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the output of the command.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a command as a batch session: print its output, and end with its exit code.

    Ctrl-C stops the session and waits for its end; a second Ctrl-C leaves at once. The session runs
    on the portal: it continues if this command is killed or loses its connection.
    """
    if not any(command):
        raise InvalidInput("Say what to run.", hint="berth run IMAGE -- python train.py")
    client = get_client(context)
    session = client.sessions.start(
        **options.arguments(context, accelerators),
        command=command_line(command),
        timeout_s=parse_seconds(time_limit),
        max_retries=retries,
        requeues=requeue,
        array=array,
    )
    if session.array:
        show_array(client, session.array, as_json=as_json)
        return
    if detach:
        show_started(session, as_json=as_json)
        return
    raise typer.Exit(follow_to_the_end(session, is_quiet=quiet))


def show_array(client: Client, array_id: str, *, as_json: bool) -> None:
    """Print a new array: its id for a pipe, a few facts for a terminal."""
    array = client.arrays.get(array_id)
    if as_json:
        show_json(array)
    elif not is_terminal():
        say(array.id)
    else:
        show_facts(
            {"array": array.name, "id": array.id, "elements": f"{array.count}: {progress_words(array)}"}
        )


def command_line(words: list[str]) -> str:
    """Return the command for the session's shell.

    Several words are quoted as they are; a single word is a line of shell.
    """
    return words[0] if len(words) == 1 else shlex.join(words)


def follow_to_the_end(session: Session, *, is_quiet: bool) -> int:
    """Print the output of a session until it has ended. Returns its exit code."""
    tell = (lambda _: None) if is_quiet else show_progress
    tell(session)
    with stopping_on_interrupt(session) as was_interrupted:
        session = session.wait_for("RUNNING", "TERMINATING", *ENDED_STATUSES, on_change=tell)
        write_log(session.logs(follow=True))
        session = session.wait_ended()
    if was_interrupted.is_set():
        return INTERRUPTED
    if session.exit_code is None or (session.exit_code and not is_quiet):
        why = first_line(session.status_message or session.status_reason)
        note(f"berth: {session.name} {session.status.lower()}: {why}")
    return FAILED if session.exit_code is None else session.exit_code


@contextmanager
def stopping_on_interrupt(session: Session) -> Iterator[threading.Event]:
    """Stop the session on the first Ctrl-C, leave on the second. Yields the event "interrupted"."""
    was_interrupted = threading.Event()

    def ask() -> None:
        try:
            session.stop()
        except BerthError as error:
            note(f"berth: {session.name} could not be stopped: {error.message}")

    def interrupted() -> None:
        if was_interrupted.is_set():
            note(f"berth: leaving; {session.name} is stopping.")
            os._exit(INTERRUPTED)  # the main thread may be blocked on the network
        was_interrupted.set()
        note(f"berth: stopping {session.name}. Ctrl-C again to leave at once.")
        threading.Thread(target=ask, daemon=True).start()

    with handle_signal(signal.SIGINT, interrupted):
        try:
            yield was_interrupted
        finally:
            sys.stdout.flush()
