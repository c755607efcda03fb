"""Entry point of `berth`: registers all commands and turns errors into exit codes."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from berth.cli import (
    account,
    arrays,
    batch,
    browsers,
    budgets,
    callbacks,
    copying,
    dotfiles,
    folders,
    groups,
    images,
    lists,
    machines,
    policies,
    preferences,
    presets,
    processes,
    raw_call,
    request_file,
    reservations,
    resource_groups,
    rules,
    scheduling,
    sessions,
    sharing,
    ssh_keys,
    storage_hosts,
    storage_use,
    templates,
    tokens,
    users,
    waiting,
)
from berth.cli.exits import FAILED, FAULT, INTERRUPTED, USAGE, exit_code_for
from berth.cli.output import note, say, show_error
from berth.cli.safe_text import first_line
from berth.cli.streams import flush_streams, open_streams
from berth.errors import BerthError, InvalidInput
from berth.version import __version__

PROGRAM = "berth"
DEBUG_VARIABLE = "BERTH_DEBUG"
COMPLETION_VARIABLE = "_BERTH_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell")

app = typer.Typer(
    name=PROGRAM,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Sessions, files and batch commands on a Berth portal. Begin with: berth login URL.",
)


def show_version(is_wanted: bool) -> None:
    if is_wanted:
        say(f"berth {__version__}")
        raise typer.Exit


@app.callback()
def begin(
    context: typer.Context,
    profile: Annotated[
        str,
        typer.Option(
            "--profile", help="Profile saved by `berth login`; also BERTH_PROFILE.", show_default=False
        ),
    ] = "",
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    context.ensure_object(dict)["profile"] = profile


def completion(
    shell: Annotated[
        str, typer.Argument(help="bash, zsh, fish or powershell; by default your shell.", show_default=False)
    ] = "",
) -> None:
    """Print the completion script for your shell.

    For bash: berth completion bash > ~/.local/share/bash-completion/completions/berth
    """
    wanted = shell or os.path.basename(os.environ.get("SHELL", ""))
    if wanted not in SHELLS:
        raise InvalidInput(
            f"“{wanted[:20]}” is no shell that is known here.", hint=f"Use one of {', '.join(SHELLS)}."
        )
    os.environ[COMPLETION_VARIABLE] = f"source_{wanted}"
    try:
        app(args=[], prog_name=PROGRAM)
    except SystemExit as ended:
        raise typer.Exit(int(ended.code or 0)) from None
    finally:
        del os.environ[COMPLETION_VARIABLE]


for name, command in (
    ("login", account.login),
    ("logout", account.logout),
    ("whoami", account.whoami),
    ("limits", lists.limits),
    ("run", batch.run),
    ("start", sessions.start),
    ("check", waiting.check),
    ("create", request_file.create),
    ("ls", sessions.ls),
    ("show", sessions.show),
    ("logs", sessions.logs),
    ("exec", processes.exec_command),
    ("shell", processes.shell),
    ("open", sessions.open_app),
    ("stop", sessions.stop),
    ("extend", sessions.extend),
    ("priority", waiting.priority),
    ("why", waiting.why),
    ("cp", copying.cp),
    ("queue", waiting.queue),
):
    app.command(name)(command)
sharing.add_to(folders.app)
app.add_typer(folders.app, name="folder")
app.add_typer(templates.app, name="template")
app.add_typer(presets.app, name="preset")
app.add_typer(arrays.app, name="array")
app.add_typer(callbacks.app, name="callback")
app.add_typer(images.image_app, name="image")
app.add_typer(machines.agent_app, name="agent")
app.add_typer(storage_hosts.app, name="storage-host")
app.add_typer(storage_use.app, name="storage")
groups.project_app.add_typer(rules.rule_app, name="rule")
app.add_typer(groups.project_app, name="project")
reservations.add_to(resource_groups.app)
scheduling.add_to(resource_groups.app)
app.add_typer(resource_groups.app, name="group")
app.add_typer(policies.app, name="policy")
app.add_typer(budgets.budget_app, name="budget")
app.add_typer(budgets.price_app, name="price")
app.add_typer(account.app, name="profile")
app.add_typer(tokens.app, name="token")
app.add_typer(preferences.app, name="preferences")
app.add_typer(ssh_keys.app, name="ssh-key")
app.add_typer(browsers.app, name="browser")
app.add_typer(users.app, name="user")
app.add_typer(dotfiles.app, name="dotfile")
app.add_typer(dotfiles.script_app, name="startup-script")
app.add_typer(groups.domain_app, name="domain")
app.command("audit")(lists.audit)
app.command("events")(lists.events)
app.command("api")(raw_call.api)
app.command("completion")(completion)


def main() -> None:
    """Run the program `berth` and exit."""
    open_streams()
    threading.excepthook = _show_thread_fault
    code = run(sys.argv[1:])
    sys.exit(code if flush_streams() else code or FAILED)


def run(arguments: Sequence[str]) -> int:
    """Run the command in `arguments` and return its exit code. Reports errors on standard error."""
    try:
        result: Any = _command()(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except BerthError as error:
        show_error(error)
        return exit_code_for(error)
    except typer.TyperException as error:
        note(f"berth: {error.format_message()}")
        note(f"hint: {_help_for(arguments)}")
        return USAGE
    except (typer.Abort, KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED  # the reader of our output has closed the pipe
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        note(f"berth: {place}{error.strerror or error}.")
        return FAILED
    except SystemExit as ended:  # the table printer exits so when its reader is gone
        return ended.code if isinstance(ended.code, int) else FAILED
    except Exception as error:  # noqa: BLE001  whatever it is: one line, and how to learn more
        return _show_fault(error)
    return result if isinstance(result, int) else 0


def _show_fault(error: BaseException) -> int:
    """Report an unexpected error as one line, or with a traceback if BERTH_DEBUG is set."""
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    note(f"berth: a fault of this command: {type(error).__name__}: {first_line(error)}"[:500])
    if not os.environ.get(DEBUG_VARIABLE):
        note(f"hint: Please report it, with what {DEBUG_VARIABLE}=1 shows in front of the same command.")
    return FAULT


def _show_thread_fault(fault: threading.ExceptHookArgs) -> None:
    if fault.exc_value is not None:
        _show_fault(fault.exc_value)


@cache
def _command() -> Callable[..., Any]:
    """Build the command tree once: building takes as long as most commands run."""
    return get_command(app)


def _help_for(arguments: Sequence[str]) -> str:
    words = [word for word in arguments[:1] if not word.startswith("-")]
    return " ".join((PROGRAM, *words, "--help"))


if __name__ == "__main__":
    main()
