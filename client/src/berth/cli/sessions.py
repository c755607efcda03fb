"""Commands `start`, `ls`, `show`, `logs`, `open`, `stop` and `extend` of sessions."""

import sys
import webbrowser
from collections.abc import Sequence
from typing import Annotated

import typer

from berth.amounts import format_age, format_amount, format_bytes, format_instant, format_left, format_slots
from berth.cli import complete
from berth.cli.accelerator_options import AcceleratorOptions
from berth.cli.context import AsJson, Kernel, SessionName, expand_options, get_client
from berth.cli.launch_options import LaunchOptions
from berth.cli.output import is_terminal, note, say, show_facts, show_json, show_table, write_log
from berth.cli.safe_text import first_line
from berth.errors import InvalidInput, NotFound, Refused
from berth.sessions import Session

ID_LENGTH = 8
CAUSES = {
    "": "time limit",
    "lifetime": "lifetime",
    "interaction": "idle",
    "use": "low use",
    "preemption": "priority",
}

AnySession = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Name, id, or the beginning of an id.",
        autocompletion=complete.ended_sessions_too,
        show_default=False,
    ),
]


@expand_options
def start(
    context: typer.Context,
    options: LaunchOptions,
    accelerators: AcceleratorOptions,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until it runs.")] = False,
    patience_s: Annotated[
        int,
        typer.Option(
            "--timeout", help="Seconds to wait until it runs; the session continues afterwards.", min=1
        ),
    ] = 600,
    as_json: AsJson = False,
) -> None:
    """Start an interactive session, and wait until it runs."""
    session = get_client(context).sessions.start(**options.arguments(context, accelerators))
    if not detach:
        show_progress(session)
        session = session.wait_running(patience_s, show_progress)
    show_started(session, as_json=as_json)


def ls(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include ended sessions.")] = False,
    project: Annotated[
        str,
        typer.Option(
            "--project", "-p", help="Only sessions of this project.", autocompletion=complete.projects
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", "-n", help="Only sessions whose name contains this text.")
    ] = "",
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only sessions with this status; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number, newest first.", min=1)] = 200,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the ids.")] = False,
    as_json: AsJson = False,
) -> None:
    """List your visible sessions, newest first; by default only live ones."""
    wanted = [one.upper() for one in status or ()]
    found = get_client(context).sessions.list(
        live=not everything and not wanted, status=wanted, project=project, name=name
    )
    sessions = [session for _, session in zip(range(limit), found, strict=False)]
    if as_json:
        show_json(sessions)
    elif quiet:
        for session in sessions:
            say(session.id)
    else:
        show_sessions(sessions)


def show(context: typer.Context, session: AnySession, as_json: AsJson = False) -> None:
    """Show one session and its status history."""
    found = get_client(context).sessions.find(session)
    if as_json:
        show_json(found)
        return
    waits = _prospect(found) if found.status == "PENDING" else {}
    show_facts(_facts(found) | waits)
    if is_terminal():
        say("")
        rows = [
            (format_age(one.happened_at), one.to_status, one.message or one.reason) for one in found.history()
        ]
        show_table(("ago", "status", "why"), rows)


def logs(
    context: typer.Context,
    session: AnySession,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the session ends.")
    ] = False,
    kernel: Kernel = "main1",
    raw: Annotated[
        bool, typer.Option("--raw", help="Pass all control sequences to the terminal; colours always pass.")
    ] = False,
) -> None:
    """Print the output of a session."""
    found = get_client(context).sessions.find(session)
    write_log(found.logs(follow=follow, kernel=kernel), is_raw=raw)


def open_app(
    context: typer.Context,
    session: SessionName,
    app: Annotated[str, typer.Argument(help="Name of an app; the first if not given.")] = "",
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open it in a browser, or only print its address.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the URL of an app of a session, and open it in a browser if there is one."""
    found = get_client(context).sessions.find(session)
    if not found.is_running:
        raise Refused(f"“{found.name}” is {found.status.lower()}; apps need a running session.")
    apps = [one for one in found.apps if not app or one.name == app]
    if not apps:
        known = ", ".join(one.name for one in found.apps) or "none"
        raise NotFound(f"“{found.name}” has no app “{app}”; it has: {known}.")
    if as_json:
        show_json(apps[0])
    else:
        say(first_line(apps[0].url))
    if browser or (browser is None and is_terminal() and not as_json):
        if not apps[0].url.startswith(("http://", "https://")):
            raise InvalidInput("The portal gave an address that is no web page.")
        webbrowser.open(apps[0].url)


def stop(
    context: typer.Context,
    sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="SESSION…", help="Names or ids.", autocompletion=complete.sessions, show_default=False
        ),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until they have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop sessions. Folders stay; all other data of the sessions is lost."""
    client = get_client(context)
    stopped = [client.sessions.find(text).stop() for text in sessions]
    if wait:
        stopped = [session.wait_ended() for session in stopped]
    if as_json:
        show_json(stopped)
        return
    for session in stopped:
        note(f"{session.name} ({session.id[:ID_LENGTH]}): {session.status.lower()}")


def extend(context: typer.Context, session: SessionName, as_json: AsJson = False) -> None:
    """Extend a session, as often and as far as its resource group and your policies allow."""
    extended = get_client(context).sessions.find(session).extend()
    if as_json:
        show_json(extended)
    else:
        note(f"{extended.name} ({extended.id[:ID_LENGTH]}) ends {_ending_words(extended)}")


def show_progress(session: Session) -> None:
    """Print the status of a session as one line on standard error."""
    place = f", place {session.queue_position} in the queue" if session.queue_position else ""
    why = f": {first_line(session.status_message)}" if session.status_message else ""
    note(f"{session.name} ({session.id[:ID_LENGTH]}) {session.status.lower()}{place}{why}")


def show_started(session: Session, *, as_json: bool) -> None:
    """Print a started session: its id for a pipe, a few facts for a terminal."""
    if as_json:
        show_json(session)
    elif not is_terminal():
        say(session.id)
    else:
        facts: dict[str, object] = {"session": session.name, "id": session.id, "status": session.status}
        show_facts(facts | {f"app {app.name}": app.url for app in session.apps})
    sys.stdout.flush()


def show_sessions(sessions: Sequence[Session]) -> None:
    """Print sessions: all columns for a pipe, those that fit for a terminal.

    Adds owners if there are several.
    """
    columns = ["id", "name", "status", "type", "image", "cpu", "mem", "project", "owner", "age", "ends"]
    if is_terminal():
        columns.remove("type")
        if not any(_ends_soon(session) for session in sessions):
            columns.remove("ends")
        if len({session.owner for session in sessions}) < 2:
            columns.remove("owner")
    rows = [[_cell(session, name) for name in columns] for session in sessions]
    show_table(columns, rows, empty="None. Start one: berth start IMAGE.")


def _cell(session: Session, column: str) -> object:
    match column:
        case "id":
            return session.id[:ID_LENGTH] if is_terminal() else session.id
        case "cpu" | "mem":
            return format_amount(column, session.resources.get(column, 0))
        case "age":
            return format_age(session.created_at)
        case "ends":
            return _ends_soon(session)
        case _:
            return getattr(session, column)


def _ends_soon(session: Session) -> str:
    """Return the end of a session within half an hour, like "in 12m (idle)"; else ""."""
    ending = session.ending
    if ending is None or ending.ends_at is None or not ending.is_soon:
        return ""
    return f"in {format_left(ending.ends_at)} ({CAUSES.get(ending.cause, ending.cause)})"


def _prospect(session: Session) -> dict[str, object]:
    found = session.sessions.prospect(session.id)
    return {
        "starts": found.expected_start.message if found.expected_start else "unknown",
        "why unknown": found.unknown_because,
        "ask": found.who_may_raise,
        "most free on one machine": format_slots(found.best_room) if found.best_room else "",
        "starts now in": ", ".join(found.other_groups),
    }


def _ending_words(session: Session) -> str:
    """Return the expected end, like "2026-11-22 21:20 (lifetime)"; "" if no limit ends the session."""
    ending = session.ending
    if ending is None:
        return ""
    if ending.ends_at is None:
        return f"not measured: {ending.gap}" if ending.gap else ""
    return f"{format_instant(ending.ends_at)} ({ending.cause or 'its time limit'})"


def _facts(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "name": session.name,
        "status": session.status,
        "why": session.status_message or session.status_reason,
        "exit code": session.exit_code,
        "type": session.type,
        "image": session.image,
        "command": session.command,
        "resources": format_slots(session.resources),
        "owner": session.owner,
        "project": f"{session.domain}/{session.project}",
        "resource group": session.resource_group,
        "ends": _ending_words(session),
        "why it ends": session.ending.why if session.ending else "",
        "agents": ", ".join(session.agents),
        "folders": ", ".join(
            f"{one.folder}:{one.path}{':ro' if one.readonly else ''}" for one in session.mounts
        ),
        "apps": ", ".join(f"{one.name} {one.url}" for one in session.apps),
        "time limit": f"{session.timeout_s} s" if session.timeout_s else "",
        "priority": session.priority or "",
        "retries": f"{session.retry_count} of {session.max_retries}" if session.max_retries else "",
        "on machine failure": "requeue" if session.requeues else "",
        "dependencies": ", ".join(f"{one.name}:{one.when}" for one in session.dependencies),
        "callback": session.callback_url,
        "accelerator model": session.device_model,
        "part of an accelerator": ", ".join(
            [
                *([format_bytes(session.device_share_mem_bytes)] if session.device_share_mem_bytes else []),
                *([f"{session.device_share_cores} %"] if session.device_share_cores else []),
            ]
        ),
        "accelerator memory": f"{format_bytes(session.device_mem_bytes)} or more"
        if session.device_mem_bytes
        else "",
        "linked accelerators": "yes" if session.linked_devices else "",
        "isolation": f"{session.isolation} or better" if session.isolation else "",
        "spread or pack": session.placement_rule.replace("_", " ")
        + f" ({session.placement_group})" * bool(session.placement_group),
        "chosen machine": session.designated_agent
        and f"{session.designated_agent}{' if it has room' * session.may_run_elsewhere}",
        "array": f"{session.array} [{session.array_index}]" if session.array else "",
        "not before": format_instant(session.start_at),
        "maximum wait": f"{session.pending_timeout_s} s" if session.pending_timeout_s else "",
        "created": format_instant(session.created_at),
        "started": format_instant(session.started_at),
        "ended": format_instant(session.ended_at),
    }
