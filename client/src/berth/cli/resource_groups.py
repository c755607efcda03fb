"""Commands `group`: list resource groups; superadmins create and change them."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from berth.amounts import format_slots
from berth.cli.context import AsJson, expand_options, get_client
from berth.cli.group_ends import Ends, end_facts, parse_ends, parse_seconds
from berth.cli.group_limits import Limits, limit_facts, read_limits
from berth.cli.output import show_facts, show_json, show_table
from berth.cli.policies import NONE
from berth.errors import InvalidInput
from berth.machine_models import ResourceGroup

app = typer.Typer(no_args_is_help=True, help="Resource groups: sets of agents that a session can name.")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name or number.", show_default=False)]
ToUser = Annotated[str, typer.Option("--user", help="This person, by e-mail.")]
ToProject = Annotated[str, typer.Option("--project", help="This project.")]
ToDomain = Annotated[str, typer.Option("--domain", help="This domain.")]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Options for the settings of a resource group."""

    description: Annotated[
        str | None,
        typer.Option("--description", help="Purpose of the group; “” for none.", show_default=False),
    ] = None
    is_active: Annotated[
        bool | None,
        typer.Option(
            "--active/--paused", help="Paused: accepts requests but starts nothing.", show_default=False
        ),
    ] = None
    is_public: Annotated[
        bool | None,
        typer.Option(
            "--public/--granted", help="Usable by everybody, or only with a grant.", show_default=False
        ),
    ] = None
    is_default: Annotated[
        bool, typer.Option("--default", help="Make it the group of sessions that name none.")
    ] = False
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="fifo, lifo, drf or fair_share.", show_default=False)
    ] = ""
    strategy: Annotated[
        str, typer.Option("--strategy", help="concentrated, dispersed or round_robin.", show_default=False)
    ] = ""
    ageing: Annotated[
        str,
        typer.Option(
            "--ageing", help="Wait time that raises the priority by one, like 6h; none.", show_default=False
        ),
    ] = ""
    patience: Annotated[
        str,
        typer.Option("--patience", help="Wait before a backfill reservation, like 10m.", show_default=False),
    ] = ""
    half_life: Annotated[
        str,
        typer.Option(
            "--half-life",
            help="Fair-share half-life: past use counts half after it, like 7d.",
            show_default=False,
        ),
    ] = ""
    ends_up_to: Annotated[
        str,
        typer.Option(
            "--ends-up-to",
            help="Preemption: sessions of this priority or lower are preempted for higher ones that find no room; none.",
            show_default=False,
        ),
    ] = ""
    undisturbed: Annotated[
        str, typer.Option("--undisturbed", help="Minimum run time before preemption.", show_default=False)
    ] = ""
    notice: Annotated[
        str, typer.Option("--notice", help="Warning before preemption, like 5m.", show_default=False)
    ] = ""
    types: Annotated[
        str,
        typer.Option("--types", help="Accepted sessions: interactive, batch or both.", show_default=False),
    ] = ""
    largest: Annotated[
        str,
        typer.Option(
            "--largest",
            help="The maximum that one session may request, like cpu=8,mem=64g,cuda=2; none.",
            show_default=False,
        ),
    ] = ""
    cpu_overcommit: Annotated[
        str,
        typer.Option(
            "--cpu-overcommit",
            help="Over-commit of CPU: how many times its cores a machine may allocate, 1 to 10.",
            show_default=False,
        ),
    ] = ""
    mem_overcommit: Annotated[
        str, typer.Option("--mem-overcommit", help="Over-commit of memory.", show_default=False)
    ] = ""
    allows_rdma: Annotated[
        bool | None,
        typer.Option(
            "--rdma/--no-rdma",
            help="Give sessions with accelerators the RDMA devices of their machine.",
            show_default=False,
        ),
    ] = None
    allows_gpudirect_storage: Annotated[
        bool | None,
        typer.Option(
            "--gpudirect-storage/--no-gpudirect-storage",
            help="Give sessions with accelerators the nvidia-fs devices of their machine.",
            show_default=False,
        ),
    ] = None
    sandbox: Annotated[
        str,
        typer.Option(
            "--sandbox",
            help="What separates sessions from the kernel of their machine: runc, gvisor or kata.",
            show_default=False,
        ),
    ] = ""
    lifetime: Annotated[
        str,
        typer.Option("--lifetime", help="Maximum lifetime of a session, like 12h; none.", show_default=False),
    ] = ""
    ends: Ends = ""
    limits: Limits = ""

    def columns(self) -> dict[str, Any]:
        """Return the given options as fields of the API. Raises InvalidInput."""
        flags = {
            "description": self.description,
            "is_active": self.is_active,
            "is_public": self.is_public,
            "allows_rdma": self.allows_rdma,
            "allows_gpudirect_storage": self.allows_gpudirect_storage,
        }
        columns: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
        words = {"scheduler": self.scheduler, "strategy": self.strategy, "sandbox": self.sandbox}
        columns |= {name: word for name, word in words.items() if word}
        spans = {
            "ageing_s": self.ageing,
            "patience_s": self.patience,
            "usage_half_life_s": self.half_life,
            "preemption_after_s": self.undisturbed,
            "preemption_grace_s": self.notice,
            "max_lifetime_s": self.lifetime,
        }
        columns |= {
            name: None if text == NONE else parse_seconds(text) for name, text in spans.items() if text
        }
        columns |= parse_ends(self.ends)
        if self.ends_up_to:
            columns["preemptible_priority"] = None if self.ends_up_to == NONE else _priority(self.ends_up_to)
        if self.is_default:
            columns["is_default"] = True
        if self.types:
            columns["session_types"] = [kind.strip() for kind in self.types.split(",")]
        if self.largest:
            columns["max_session_slots"] = _amounts(self.largest)
        factors = {"cpu_overcommit": self.cpu_overcommit, "mem_overcommit": self.mem_overcommit}
        columns |= {name: factor.removesuffix("x") for name, factor in factors.items() if factor}
        return columns | read_limits(self.limits)


@app.command("ls", hidden=True)
@app.command("list")
def list_groups(context: typer.Context, as_json: AsJson = False) -> None:
    """List the resource groups that you may use."""
    groups = list(get_client(context).managed_groups.list())
    if as_json:
        show_json(groups)
        return
    rows = [(one.name, one.agents, one.scheduler, one.strategy, _state(one)) for one in groups]
    show_table(("name", "agents", "scheduler", "strategy", "state"), rows, empty="None.")


@app.command("show")
def show(context: typer.Context, group: GroupName, as_json: AsJson = False) -> None:
    """Show a resource group."""
    _show(get_client(context).managed_groups.find(group), as_json=as_json)


@app.command("create")
@expand_options
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and dashes.", show_default=False)],
    settings: GroupSettings,
    as_json: AsJson = False,
) -> None:
    """Create a resource group without agents."""
    _show(get_client(context).managed_groups.create(name, settings.columns()), as_json=as_json)


@app.command("set")
@expand_options
def change(
    context: typer.Context,
    group: GroupName,
    *,
    name: Annotated[str, typer.Option("--name", help="New name.")] = "",
    settings: GroupSettings,
    as_json: AsJson = False,
) -> None:
    """Change a resource group. Running sessions continue, and pending ones that may start there."""
    columns = settings.columns() | ({"name": name} if name else {})
    groups = get_client(context).managed_groups
    _show(groups.change(groups.find(group).id, columns), as_json=as_json)


@app.command("delete")
def delete(context: typer.Context, group: GroupName) -> None:
    """Delete a resource group that has no agents and no pending or running sessions."""
    groups = get_client(context).managed_groups
    groups.delete(groups.find(group).id)


@app.command("grants")
def list_grants(context: typer.Context, group: GroupName, as_json: AsJson = False) -> None:
    """List the grants of a resource group that is not public."""
    groups = get_client(context).managed_groups
    found = list(groups.grants(groups.find(group).id))
    if as_json:
        show_json(found)
        return
    show_table(("level", "name"), [(one.level, one.name) for one in found], empty="None.")


@app.command("grant")
def grant(
    context: typer.Context,
    group: GroupName,
    user: ToUser = "",
    project: ToProject = "",
    domain: ToDomain = "",
) -> None:
    """Grant a domain, project or user the use of a resource group."""
    groups, (level, name) = get_client(context).managed_groups, parse_grantee(user, project, domain)
    groups.grant(groups.find(group).id, level=level, name=name)


@app.command("revoke")
def revoke(
    context: typer.Context,
    group: GroupName,
    user: ToUser = "",
    project: ToProject = "",
    domain: ToDomain = "",
) -> None:
    """Revoke a grant. Pending sessions that depend on it are put on hold and cancelled after a day;
    running ones continue.
    """
    groups, (level, name) = get_client(context).managed_groups, parse_grantee(user, project, domain)
    groups.revoke(groups.find(group).id, level=level, name=name)


@app.command("add-agent")
def add_agent(
    context: typer.Context,
    group: GroupName,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name of the machine.", show_default=False)],
) -> None:
    """Move an agent into the group; its running sessions continue."""
    groups = get_client(context).managed_groups
    groups.add_agent(groups.find(group).id, agent)


def _overcommit(group: ResourceGroup) -> str:
    factors = {"CPU": group.cpu_overcommit, "memory": group.mem_overcommit}
    return ", ".join(f"{factor:g}× {name}" for name, factor in factors.items() if factor > 1)


def _extras(group: ResourceGroup) -> str:
    extras = {"RDMA": group.allows_rdma, "GPUDirect Storage": group.allows_gpudirect_storage}
    return ", ".join(name for name, is_allowed in extras.items() if is_allowed)


def _priority(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInput(
            f"“{text[:40]}” is no priority.", hint="Write a whole number like 0, or none."
        ) from error


def _amounts(text: str) -> dict[str, str]:
    if text == NONE:
        return {}
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and amount for name, _equals, amount in pairs):
        raise InvalidInput(f"“{text[:40]}” is no size.", hint="Write it like cpu=8,mem=64g.")
    return {name.strip(): amount.strip() for name, _equals, amount in pairs}


def parse_grantee(user: str, project: str, domain: str) -> tuple[str, str]:
    wanted = {"user": user, "project": project, "domain": domain}
    given = [(level, name) for level, name in wanted.items() if name]
    if len(given) != 1:
        raise InvalidInput("Say to whom.", hint="One of --user, --project, --domain.")
    return given[0]


def _state(group: ResourceGroup) -> str:
    words = (
        "default" if group.is_default else "",
        "" if group.is_active else "paused",
        "" if group.is_public else "granted",
    )
    return " ".join(word for word in words if word)


def _preemption(group: ResourceGroup) -> dict[str, object]:
    if group.preemptible_priority is None:
        return {}
    return {
        "preemption": f"up to priority {group.preemptible_priority}",
        "minimum run time": f"{group.preemption_after_s} s",
        "preemption warning": f"{group.preemption_grace_s} s",
    }


def _show(group: ResourceGroup, *, as_json: bool) -> None:
    if as_json:
        show_json(group)
        return
    show_facts(
        {
            "id": group.id,
            "name": group.name,
            "description": group.description,
            "state": _state(group) or "active",
            "agents": group.agents,
            "scheduler": group.scheduler,
            "strategy": group.strategy,
            "sandbox": group.sandbox,
            "accelerators get": _extras(group),
            "types": ", ".join(group.session_types),
            "largest session": format_slots(group.max_session_slots) if group.max_session_slots else "",
            "over-commit": _overcommit(group),
            "ageing": f"{group.ageing_s} s" if group.ageing_s else "",
            "patience": f"{group.patience_s} s",
            "fair-share half-life": f"{group.usage_half_life_s} s",
            **_preemption(group),
            **end_facts(group),
            **limit_facts(group),
        }
    )
