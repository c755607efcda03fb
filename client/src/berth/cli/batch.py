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

from berth.cli.arrays import how_far
from berth.cli.context import AsJson, client_of
from berth.cli.exits import FAILED, INTERRUPTED
from berth.cli.launch_options import (
    After,
    Array,
    Callback,
    Cpu,
    Environment,
    GpuModel,
    Group,
    Image,
    Mem,
    Mounts,
    Name,
    OnAgent,
    Pack,
    PendingTimeout,
    PersonalFiles,
    PlacementGroup,
    PreferAgent,
    Preset,
    Priority,
    Project,
    Resources,
    Shm,
    Spread,
    StartAt,
    Strict,
    amounts_of,
    dependencies_of,
    designated_of,
    environment_of,
    instant_of,
    mounts_of,
    placement_rule_of,
    project_of,
    resources_of,
    seconds_of,
)
from berth.cli.output import is_terminal, note, say, show_facts, show_json, write_log
from berth.cli.safe_text import first_line
from berth.cli.sessions import show_started, tell_progress
from berth.cli.signals import heard
from berth.client import Client
from berth.errors import BerthError, InvalidInput
from berth.models import ENDED_STATUSES
from berth.sessions import Session


def run(
    context: typer.Context,
    image: Image,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…",
            help="What to run, after --. One word alone is read by a shell.",
            show_default=False,
        ),
    ],
    project: Project = "",
    name: Name = "",
    preset: Preset = "",
    cpu: Cpu = "1",
    mem: Mem = "1g",
    shm: Shm = "",
    resource: Resources = None,
    env: Environment = None,
    mount: Mounts = None,
    group: Group = "",
    personal_files: PersonalFiles = True,
    priority: Priority = 0,
    start_at: StartAt = "",
    pending_timeout: PendingTimeout = "",
    agent: OnAgent = "",
    prefer_agent: PreferAgent = "",
    gpu_model: GpuModel = "",
    placement_group: PlacementGroup = "",
    spread: Spread = False,
    pack: Pack = False,
    strict: Strict = False,
    after: After = None,
    callback: Callback = "",
    array: Array = "",
    retries: Annotated[
        int, typer.Option("--retries", help="Try it again so often after a failure.", min=0)
    ] = 0,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Wait for another machine when its own is lost.")
    ] = False,
    time_limit: Annotated[str, typer.Option("--time-limit", "-t", help="Like 90, 30m, 2h or 1d.")] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print its id and go.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing but what the command writes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a command as a batch session: print its output, and end with its exit code.

    Ctrl-C stops the session and waits for its end; a second Ctrl-C leaves at once. The session runs
    on the portal: it continues if this command is killed or loses its connection.
    """
    if not any(command):
        raise InvalidInput("Say what to run.", hint="berth run IMAGE -- python train.py")
    client = client_of(context)
    project = project_of(client, project)
    session = client.sessions.start(
        client.find_image(image),
        project=project,
        name=name,
        **amounts_of(context, preset, project, {"cpu": cpu, "mem": mem}, resources_of(shm, resource)),
        environment=environment_of(env),
        mounts=mounts_of(mount),
        resource_group=group,
        command=command_line(command),
        timeout_s=seconds_of(time_limit),
        personal_files=personal_files,
        priority=priority,
        start_at=instant_of(start_at),
        pending_timeout_s=seconds_of(pending_timeout),
        after=dependencies_of(after),
        callback_url=callback,
        designated_agent=designated_of(agent, prefer_agent),
        may_run_elsewhere=bool(prefer_agent),
        device_model=gpu_model,
        placement_group=placement_group,
        placement_rule=placement_rule_of(spread=spread, pack=pack, strict=strict),
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
        show_facts({"array": array.name, "id": array.id, "elements": f"{array.count}: {how_far(array)}"})


def command_line(words: list[str]) -> str:
    """Return the command for the session's shell.

    Several words are quoted as they are; a single word is a line of shell.
    """
    return words[0] if len(words) == 1 else shlex.join(words)


def follow_to_the_end(session: Session, *, is_quiet: bool) -> int:
    """Print the output of a session until it has ended. Returns its exit code."""
    tell = (lambda _: None) if is_quiet else tell_progress
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

    with heard(signal.SIGINT, interrupted):
        try:
            yield was_interrupted
        finally:
            sys.stdout.flush()
