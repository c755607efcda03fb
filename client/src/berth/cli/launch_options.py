"""Options of the commands that start sessions, and their conversion to request fields."""

import os
import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, Any

import typer

from berth.cli import complete
from berth.cli.accelerator_options import AcceleratorOptions
from berth.cli.context import get_client
from berth.client import Client
from berth.errors import InvalidInput
from berth.sessions import Mount

SPAN = re.compile(r"(\d{1,9})(s|m|h|d|)", re.ASCII)
PLAIN = frozenset({"cpu", "mem", "shm"})
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

Image = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE",
        help="Reference, id, or a beginning like berth/python or python.",
        autocompletion=complete.images,
        show_default=False,
    ),
]
Project = Annotated[
    str,
    typer.Option(
        "--project",
        "-p",
        help="Project of the session; by default your only project.",
        envvar="BERTH_PROJECT",
        autocompletion=complete.projects,
        show_default=False,
    ),
]
Cpu = Annotated[str, typer.Option("--cpu", help="Cores, like 2 or 0.5.")]
Mem = Annotated[str, typer.Option("--mem", help="Memory, like 512m or 4g.")]
Shm = Annotated[str, typer.Option("--shm", help="Shared memory, part of the memory.", show_default=False)]
Resources = Annotated[
    list[str] | None,
    typer.Option("--resource", metavar="NAME=AMOUNT", help="Any other resource; may be repeated."),
]
Environment = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        "-e",
        metavar="NAME[=VALUE]",
        help="Environment variable; without a value, its local value. May be repeated.",
    ),
]
Mounts = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        "-m",
        metavar="FOLDER[/DIRECTORY][:PATH][:ro]",
        help="Mount a folder, or a directory in it, at /home/work/FOLDER or PATH; ro: read-only. May be repeated.",
        autocompletion=complete.folders,
    ),
]
Group = Annotated[
    str,
    typer.Option(
        "--group", help="Resource group whose machines to use.", autocompletion=complete.resource_groups
    ),
]

Priority = Annotated[
    int,
    typer.Option(
        "--priority", help="Higher goes first; above 0, a policy must allow it.", show_default=False
    ),
]

Nodes = Annotated[
    int, typer.Option("--nodes", help="Number of containers: main1, sub1, sub2…; all start, or none.")
]
NodesOn = Annotated[
    str,
    typer.Option(
        "--nodes-on",
        metavar="WHERE",
        help="Where several containers run: one_machine, anywhere, or spread (each on another machine).",
        show_default="one_machine",
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="NAME=COUNT[,RESOURCE=AMOUNT…][,tolerate][: COMMAND]",
        help="Containers beside main1 that are not like it: worker=2,cpu=4,mem=8g. tolerate: the session goes on if one fails. May be repeated.",
    ),
]


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Options of the commands that start a session from an image."""

    image: Image
    project: Project = ""
    name: Annotated[
        str, typer.Option("--name", "-n", help="Name of the session; generated if not given.")
    ] = ""
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            help="Named size (berth preset ls); --cpu and the like override it.",
            autocompletion=complete.presets,
            show_default=False,
        ),
    ] = ""
    cpu: Cpu = "1"
    mem: Mem = "1g"
    shm: Shm = ""
    resource: Resources = None
    env: Environment = None
    mount: Mounts = None
    group: Group = ""
    personal_files: Annotated[
        bool,
        typer.Option(
            "--personal-files/--no-personal-files", help="Use your dotfiles and start-up script, or do not."
        ),
    ] = True
    priority: Priority = 0
    start_at: Annotated[
        str,
        typer.Option(
            "--start-at",
            metavar="TIME",
            help="Earliest start, like “2027-01-31 08:00”; local time if it has no time zone.",
        ),
    ] = ""
    pending_timeout: Annotated[
        str,
        typer.Option(
            "--pending-timeout",
            metavar="TIME",
            help="Cancel it if it has not started after this time: 90, 30m, 2h or 1d.",
        ),
    ] = ""
    agent: Annotated[
        str, typer.Option("--agent", metavar="MACHINE", help="Run only on this machine of the group.")
    ] = ""
    prefer_agent: Annotated[
        str,
        typer.Option(
            "--prefer-agent", metavar="MACHINE", help="Run on this machine of the group if it has room."
        ),
    ] = ""
    placement_group: Annotated[
        str,
        typer.Option(
            "--placement-group",
            metavar="NAME",
            help="Group for --spread and --pack: your sessions in the project with the same name; by default the other elements of the array.",
            show_default=False,
        ),
    ] = ""
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Prefer the machine with the fewest sessions of the placement group."),
    ] = False
    pack: Annotated[
        bool, typer.Option("--pack", help="Prefer a machine with other sessions of the placement group.")
    ] = False
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Wait rather than share a machine (--spread) or use another one (--pack)."
        ),
    ] = False
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="SESSION[:WHEN]",
            help="Start after this session or array, by id or name, has ended: with success, or :any, or :failure. "
            "May be repeated.",
            autocompletion=complete.sessions_and_arrays,
        ),
    ] = None
    nodes: Nodes = 1
    nodes_on: NodesOn = ""
    role: Roles = None
    callback: Annotated[
        str,
        typer.Option(
            "--callback",
            metavar="URL",
            help="Send a signed POST to this URL when it starts, is retried, and ends.",
            show_default=False,
        ),
    ] = ""

    def arguments(self, context: typer.Context, accelerators: AcceleratorOptions) -> dict[str, Any]:
        """Return the arguments of `Sessions.start`. Raises NotFound, InvalidInput."""
        client = get_client(context)
        project = choose_project(client, self.project)
        others = {**parse_resources(self.shm, self.resource), **accelerators.amounts()}
        return {
            "image": client.find_image(self.image),
            "project": project,
            "name": self.name,
            **requested_amounts(context, self.preset, project, {"cpu": self.cpu, "mem": self.mem}, others),
            "environment": parse_environment(self.env),
            "mounts": parse_mounts(self.mount),
            "resource_group": self.group,
            "personal_files": self.personal_files,
            "priority": self.priority,
            "start_at": parse_instant(self.start_at),
            "pending_timeout_s": parse_seconds(self.pending_timeout),
            "after": parse_dependencies(self.after),
            "callback_url": self.callback,
            "designated_agent": designated_agent_name(self.agent, self.prefer_agent),
            "may_run_elsewhere": bool(self.prefer_agent),
            **accelerators.demands(),
            "cluster_size": self.nodes,
            "cluster_mode": self.nodes_on,
            "roles": parse_roles(self.role),
            "placement_group": self.placement_group,
            "placement_rule": placement_rule_name(spread=self.spread, pack=self.pack, strict=self.strict),
        }


def parse_resources(shm: str, others: list[str] | None) -> dict[str, str]:
    resources = dict(parse_pair(text, "--resource", "cuda=1") for text in others or ())
    return resources | ({"shm": shm} if shm else {})


def requested_amounts(
    context: typer.Context, preset: str, project: str, amounts: dict[str, str], others: dict[str, Any]
) -> dict[str, Any]:
    """Return the resources as arguments of `Sessions.start`: {"cpu", "mem", "resources"}.

    With a preset, takes its amounts for options that were not given; otherwise the options'
    defaults. Raises NotFound, InvalidInput.
    """
    if preset:
        named = {
            name: text
            for name, text in amounts.items()
            if (source := context.get_parameter_source(name)) and source.name != "DEFAULT"
        }
        offered = dict(get_client(context).presets.find(preset, project=project).amounts)
        if not others.keys() <= PLAIN:  # a session has accelerators of one kind: those of the options
            offered = {name: amount for name, amount in offered.items() if name in PLAIN}
        found = {**offered, **named, **others}
    else:
        found = {**amounts, **others}
    return {"cpu": found.pop("cpu"), "mem": found.pop("mem"), "resources": found}


def parse_environment(texts: list[str] | None) -> dict[str, str]:
    """Parse `NAME=VALUE`; `NAME` alone copies a local variable. Raises InvalidInput if not set."""
    variables = {}
    for text in texts or ():
        name, has_value, value = text.partition("=")
        if not has_value:
            if name not in os.environ:
                raise InvalidInput(
                    f"--env {name}: there is no such variable here.", hint="Write --env NAME=VALUE."
                )
            value = os.environ[name]
        variables[name] = value
    return variables


def parse_mounts(texts: list[str] | None) -> list[Mount]:
    mounts = []
    for text in texts or ():
        folder, *rest = text.split(":")
        is_readonly = bool(rest) and rest[-1] in ("ro", "rw") and rest.pop() == "ro"
        if not folder or len(rest) > 1:
            raise InvalidInput(
                f"--mount {text}: not understood.", hint="Write it like data, or data:/home/work/in:ro."
            )
        mounts.append(Mount(folder, rest[0] if rest else "", is_readonly))
    return mounts


def parse_roles(texts: list[str] | None) -> list[dict[str, Any]]:
    """Parse `NAME=COUNT[,RESOURCE=AMOUNT…][,tolerate][: COMMAND]` into roles. Raises InvalidInput."""
    roles = []
    for text in texts or ():
        head, _colon, command = text.partition(":")
        first, *amounts = head.split(",")
        name, count = parse_pair(first, "--role", "worker=2")
        if not (count.isascii() and count.isdecimal()):
            raise InvalidInput(f"--role {text}: not understood.", hint="Write it like worker=2,cpu=4,mem=8g.")
        role: dict[str, Any] = {"name": name, "count": int(count)}
        if "tolerate" in amounts:
            amounts.remove("tolerate")
            role["failure_policy"] = "tolerate"
        if amounts:
            role["resources"] = dict(parse_pair(each, "--role", "worker=2,cpu=4") for each in amounts)
        if command.strip():
            role["command"] = command.strip()
        roles.append(role)
    return roles


def parse_seconds(text: str) -> int | None:
    """Convert "90", "30m", "2h" or "1d" to seconds; None for "". Raises InvalidInput."""
    if not text:
        return None
    found = SPAN.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"“{text[:40]}” is not a length of time.", hint="Write it like 90, 30m, 2h or 1d.")
    return int(found[1]) * SECONDS[found[2]]


def parse_instant(text: str) -> str:
    """Return the instant with time zone, by default local; "" for "". Raises InvalidInput."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat() if text else ""
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"“{text[:40]}” is no time.", hint="Write it like 2027-01-31T08:00.") from error


def parse_past_instant(text: str, now: datetime | None = None) -> str:
    """Parse an instant in the past; a time of day alone, like "14:05", is its last occurrence.

    Raises InvalidInput.
    """
    try:
        clock = time.fromisoformat(text)
    except ValueError:
        return parse_instant(text)
    present = now or datetime.now().astimezone()
    then = datetime.combine(present.date(), clock, clock.tzinfo or present.tzinfo)
    return (then if then <= present else then - timedelta(days=1)).isoformat()


def parse_dependencies(texts: list[str] | None) -> dict[str, str]:
    """Parse dependencies into {id or name: required outcome}; the default outcome is success."""
    parts = (text.partition(":") for text in texts or ())
    return {session: when or "success" for session, _colon, when in parts}


def designated_agent_name(agent: str, prefer_agent: str) -> str:
    """Return the agent of `--agent` or `--prefer-agent`, or "". Raises InvalidInput for both."""
    if agent and prefer_agent:
        raise InvalidInput("Name one machine: with --agent or with --prefer-agent.")
    return agent or prefer_agent


def placement_rule_name(*, spread: bool, pack: bool, strict: bool) -> str:
    """Return the placement rule of these options; "" for none. Raises InvalidInput."""
    if spread and pack:
        raise InvalidInput("Say --spread or --pack, not both.")
    if not (spread or pack):
        if strict:
            raise InvalidInput("Say with --strict whether to --spread or to --pack.")
        return ""
    return f"{'strict_' if strict else ''}{'spread' if spread else 'pack'}"


def choose_project(client: Client, project: str) -> str:
    """Return `project`, or the only project of the user if empty. Raises InvalidInput if unclear."""
    if project:
        return project
    names = [one.name for one in client.projects()]
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidInput("You are in no project.", hint="Ask an administrator to add you to one.")
    raise InvalidInput(
        f"Say which project: {', '.join(names[:20])}.",
        hint="With --project NAME, or BERTH_PROJECT for all commands.",
    )


def parse_pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair or not name:
        raise InvalidInput(f"{option} {text}: not understood.", hint=f"Write it like {option} {example}.")
    return name, value
