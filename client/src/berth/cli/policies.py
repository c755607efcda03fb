"""Commands `policy`: manage and assign resource policies (administrators)."""

from typing import Annotated, Any

import typer

from berth.amounts import MILLI, format_limit, format_slots
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, show_facts, show_json, show_table
from berth.errors import InvalidInput
from berth.models import Policy, PolicyImpact

app = typer.Typer(
    no_args_is_help=True, help="Resource policies: how much domains, projects, people and tokens may use."
)

# Limits by their word on the command line; every other word is a slot.
NUMBERS = {
    "sessions": "max_sessions",
    "waiting": "max_pending_sessions",
    "containers": "max_containers",
    "lifetime": "max_lifetime_s",
    "idle": "max_idle_s",
    "least.cpu": "min_cpu_percent",
    "least.mem": "min_mem_percent",
    "least.devices": "min_device_percent",
    "least.device-mem": "min_device_mem_percent",
    "window": "use_window_s",
    "grace": "use_grace_s",
    "extensions": "max_extensions",
    "extension": "max_extension_s",
    "priority": "max_priority",
    "folders": "max_folders",
    "storage": "max_folder_bytes",
    "tokens": "max_keypairs",
    "requests": "max_requests",
    "browsers": "max_browsers",
}
LISTS = {"registries": "allowed_registries", "images": "allowed_images", "hosts": "allowed_storage_hosts"}
RULE = "low"  # same word as for resource groups
WAITING = "waiting."
SPANS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
PERCENT = {"%": 1}
UNITS = {
    "storage": SIZES,
    **dict.fromkeys(("lifetime", "idle", "window", "grace", "extension"), SPANS_S),
    **{word: PERCENT for word in NUMBERS if word.startswith("least.")},
}
NONE = "none"

PolicyName = Annotated[str, typer.Argument(metavar="POLICY", help="Name or number.", show_default=False)]
Limits = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LIMIT=AMOUNT…",
        help="sessions=10 waiting=5 containers=4 lifetime=12h idle=2h extensions=3 extension=1h priority=10 folders=20 "
        "storage=500g tokens=5 requests=600 browsers=3 cpu=16 mem=64g cuda=2 waiting.cpu=32 …; a session ends below "
        "least.cpu=5, least.mem=5, least.devices=10 or least.device-mem=10 percent of what is allocated to it, or with low=all below all of them, over window=1h and then grace=30m (batch sessions "
        "only where their resource group says so). Without an amount, like "
        "sessions=, it is unlimited. Allow-lists: "
        "registries=ghcr.io,local images='berth/*' hosts=local; none allows nothing, images= everything.",
        show_default=False,
    ),
]


@app.command("list")
def list_policies(context: typer.Context, as_json: AsJson = False) -> None:
    """List the policies that you administer or that apply in your domain."""
    found = list(get_client(context).policies.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (one.id, one.name, one.domain or "all", "default" if one.is_default else "", _limits_words(one))
        for one in found
    ]
    show_table(("id", "name", "domain", "state", "limits"), rows, empty="None.")


@app.command("show")
def show(context: typer.Context, policy: PolicyName, as_json: AsJson = False) -> None:
    """Show the limits of a policy."""
    _show(get_client(context).policies.find(policy), as_json=as_json)


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the policy.", show_default=False)],
    limits: Limits = None,
    domain: Annotated[
        str, typer.Option("--domain", help="Domain of the policy; by default yours, or all for superadmins.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Create a policy. It has no effect until it is assigned."""
    made = get_client(context).policies.create(name, domain=domain, limits=_changes(limits or [], None))
    _show(made, as_json=as_json)


@app.command("set")
def set_limits(
    context: typer.Context,
    policy: PolicyName,
    limits: Limits = None,
    name: Annotated[str, typer.Option("--name", help="New name.")] = "",
    is_default: Annotated[
        bool, typer.Option("--default", help="Default for new people from now on.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show who would be affected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change limits. Running sessions continue, even above a limit; users above it cannot start
    sessions until they use less. Idle timeout and low utilization also end running sessions.
    """
    policies = get_client(context).policies
    found = policies.find(policy)
    changes = _changes(limits or [], found)
    impact = policies.foresee(found.id, changes)
    if dry_run:
        show_json(impact) if as_json else _show_impact(impact)
        return
    if name:
        changes["name"] = name
    if is_default:
        changes["is_default"] = True
    changed = policies.change(found.id, changes)
    if impact.above_count and not as_json:
        note(
            f"{impact.above_count} above the new limits; they keep what runs. See: berth policy set --dry-run"
        )
    if not as_json:
        _tell_ends(impact)
    _show(changed, as_json=as_json)


@app.command("delete")
def delete(context: typer.Context, policy: PolicyName) -> None:
    """Delete a policy that is not assigned."""
    policies = get_client(context).policies
    policies.delete(policies.find(policy).id)


@app.command("assign")
def assign(
    context: typer.Context,
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="Name or number; none for none.", show_default=False)
    ],
    user: Annotated[str, typer.Option("--user", help="To this person, by e-mail.")] = "",
    project: Annotated[str, typer.Option("--project", help="To this project.")] = "",
    domain: Annotated[str, typer.Option("--domain", help="To this domain.")] = "",
    token: Annotated[str, typer.Option("--token", help="To this token, by number.")] = "",
) -> None:
    """Assign a policy to a domain, project, user or token from now on."""
    wanted = {"user": user, "project": project, "domain": domain, "keypair": token}
    given = [(level, name) for level, name in wanted.items() if name]
    if len(given) != 1:
        raise InvalidInput("Say to whom.", hint="One of --user, --project, --domain, --token.")
    [(level, name)] = given
    get_client(context).policies.assign("" if policy == NONE else policy, level=level, name=name)


def _changes(typed: list[str], policy: Policy | None) -> dict[str, Any]:
    """Return the changes as the API takes them; slots not named stay as in `policy`.

    Raises InvalidInput.
    """
    changes: dict[str, Any] = {}
    for text in typed:
        word, equals, amount = text.partition("=")
        if not equals or not word:
            raise InvalidInput(f"“{text[:40]}” is no limit.", hint="Write it like sessions=10 or cpu=16.")
        if word in NUMBERS:
            changes[NUMBERS[word]] = _number(word, amount)
            continue
        if word == RULE:
            changes["use_rule"] = amount or "any"
            continue
        if word in LISTS:
            changes[LISTS[word]] = _entries(amount)
            continue
        column = "max_pending_slots" if word.startswith(WAITING) else "max_slots"
        slots = changes.setdefault(column, _typed_slots(getattr(policy, column) if policy else {}))
        slot = word.removeprefix(WAITING)
        if amount:
            slots[slot] = amount
        else:
            slots.pop(slot, None)
    return changes


def _typed_slots(slots: dict[str, int]) -> dict[str, Any]:
    return {name: amount if name == "mem" else amount / MILLI for name, amount in slots.items()}


def _number(word: str, amount: str) -> int | None:
    if not amount:
        return None
    factor = UNITS.get(word, {}).get(amount[-1].lower(), 0)
    digits = amount[:-1] if factor else amount
    if not digits.isdecimal():
        raise InvalidInput(
            f"“{amount[:40]}” is no amount for {word}.",
            hint="Write it like 10, 12h for lifetime, or 500g for storage.",
        )
    return int(digits) * (factor or 1)


def _entries(text: str) -> list[str] | None:
    if text == NONE:
        return []
    return [entry.strip() for entry in text.split(",")] if text else None


def _limits_words(policy: Policy) -> str:
    words = [
        f"{word} {format_limit(column.removeprefix('max_'), value)}"
        for word, column in NUMBERS.items()
        if (value := getattr(policy, column)) is not None
    ]
    if policy.use_rule != "any":
        words.append(f"{RULE} {policy.use_rule}")
    if policy.max_slots:
        words.append(format_slots(policy.max_slots))
    if policy.max_pending_slots:
        words.append(f"waiting: {format_slots(policy.max_pending_slots)}")
    for word, column in LISTS.items():
        if (entries := getattr(policy, column)) is not None:
            words.append(f"{word} {' '.join(entries) or NONE}")
    return ", ".join(words) or "nothing"


def _show(policy: Policy, *, as_json: bool) -> None:
    if as_json:
        show_json(policy)
        return
    show_facts(
        {
            "id": policy.id,
            "name": policy.name,
            "domain": policy.domain or "all",
            "default": "yes" if policy.is_default else "",
            "limits": _limits_words(policy),
        }
    )


def _show_impact(impact: PolicyImpact) -> None:
    show_facts({f"{level}s": count for level, count in impact.counts.items() if count})
    rows = [
        (
            f"{one.level} {one.scope}",
            one.limit,
            format_limit(one.limit, one.used),
            format_limit(one.limit, one.value),
        )
        for one in impact.above
    ]
    show_table(("who", "limit", "used", "most"), rows, empty="Nobody is above.")
    _tell_ends(impact)


def _tell_ends(impact: PolicyImpact) -> None:
    if impact.is_ending:
        note(
            "Running sessions end by the new idle timeout and minimum utilization; their owners are warned before."
        )
