"""Commands `budget` and `price`: spending limits of projects and users, and prices."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer

from berth.cli.context import AsJson, get_client
from berth.cli.output import note, show_facts, show_json, show_table
from berth.errors import InvalidInput
from berth.models import Budget, BudgetImpact, Price

budget_app = typer.Typer(
    no_args_is_help=True, help="Budgets: what projects and people may spend in a period."
)
price_app = typer.Typer(no_args_is_help=True, help="The price list, by which budgets in money count.")

UNITS = {"money": "money", "GPU-hours": "device_hours", "hours": "device_hours"}
PERIODS = ("month", "quarter", "term")
NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)

BudgetNumber = Annotated[int, typer.Argument(metavar="BUDGET", help="Number.", show_default=False)]
OfUser = Annotated[str, typer.Option("--user", help="Budget of this user, by e-mail.", show_default=False)]
OfProject = Annotated[str, typer.Option("--project", help="Budget of this project.", show_default=False)]
Unit = Annotated[
    str,
    typer.Option(
        "--unit", help="money, or GPU-hours of all accelerators: money | hours.", show_default=False
    ),
]
PeriodName = Annotated[str, typer.Option("--period", help="month, quarter or term.", show_default=False)]
FirstDay = Annotated[
    str,
    typer.Option("--from", metavar="DAY", help="First day of a term, like 2026-09-01.", show_default=False),
]
LastDay = Annotated[str, typer.Option("--to", metavar="DAY", help="Last day of a term.", show_default=False)]
Warn = Annotated[
    int | None,
    typer.Option("--warn", min=1, max=100, help="Percentage at which a warning is sent.", show_default=False),
]
IsHard = Annotated[
    bool | None,
    typer.Option("--hard/--soft", help="When used up, refuse new sessions or only warn.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the effect.")]


@budget_app.command("list")
def list_budgets(
    context: typer.Context,
    user: OfUser = "",
    project: OfProject = "",
    every: Annotated[bool, typer.Option("--all", help="Include past and future terms.")] = False,
    as_json: AsJson = False,
) -> None:
    """List your budgets and those that you administer, with the amounts spent."""
    level, name = _owner(user, project) if user or project else ("", "")
    is_current = None if every else True
    found = list(get_client(context).budgets.list(level=level, name=name, is_current=is_current))
    if as_json:
        show_json(found)
        return
    rows = [
        (one.id, one.level, one.owner, _unit(one), one.amount, one.spent, one.left, _state(one), _days(one))
        for one in found
    ]
    columns = ("id", "of", "owner", "counts", "amount", "spent", "left", "state", "period")
    show_table(columns, rows, empty="None.")


@budget_app.command("show")
def show(context: typer.Context, budget: BudgetNumber, as_json: AsJson = False) -> None:
    """Show a budget and the amount spent."""
    _show(get_client(context).budgets.get(budget), as_json=as_json)


@budget_app.command("create")
def create(
    context: typer.Context,
    amount: Annotated[str, typer.Argument(help="Like 100 or 99.50.", show_default=False)],
    user: OfUser = "",
    project: OfProject = "",
    unit: Unit = "hours",
    period: PeriodName = "month",
    first: FirstDay = "",
    last: LastDay = "",
    warn: Warn = None,
    is_hard: IsHard = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a budget for a project or user. Running sessions continue, whatever is spent."""
    level, name = _owner(user, project)
    wanted = _changes(amount, unit, period, first, last, warn, is_hard)
    budgets = get_client(context).budgets
    if dry_run:
        _show_impact(budgets.foresee(level=level, name=name, **wanted), as_json=as_json)
        return
    _show(budgets.create(level=level, name=name, **wanted), as_json=as_json)


@budget_app.command("set")
def set_budget(
    context: typer.Context,
    budget: BudgetNumber,
    amount: Annotated[str, typer.Option("--amount", help="Like 100 or 99.50.", show_default=False)] = "",
    unit: Unit = "",
    period: PeriodName = "",
    first: FirstDay = "",
    last: LastDay = "",
    warn: Warn = None,
    is_hard: IsHard = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change the given fields of a budget."""
    changes = _changes(amount, unit, period, first, last, warn, is_hard)
    if not changes:
        raise InvalidInput("Say what to change.", hint="Like --amount 200 or --hard.")
    budgets = get_client(context).budgets
    if dry_run:
        _show_impact(budgets.foresee_change(budget, changes), as_json=as_json)
        return
    _show(budgets.change(budget, changes), as_json=as_json)


@budget_app.command("delete")
def delete(context: typer.Context, budget: BudgetNumber) -> None:
    """Delete a budget: nothing is counted against it any more."""
    get_client(context).budgets.delete(budget)


@price_app.command("list")
def list_prices(context: typer.Context, as_json: AsJson = False) -> None:
    """List past, current and future prices of an hour of one core, GiB or device."""
    found = list(get_client(context).prices.list())
    if as_json:
        show_json(found)
        return
    show_table(("resource", "per hour", "from"), map(_price_row, found), empty="None: everything is free.")


@price_app.command("set")
def set_price(
    context: typer.Context,
    resource: Annotated[str, typer.Argument(help="cpu, mem or an accelerator.", show_default=False)],
    price: Annotated[
        str, typer.Argument(help="Price of an hour of one core, GiB or device.", show_default=False)
    ],
    since: Annotated[str, typer.Option("--from", metavar="DAY", help="In UTC; tomorrow if not given.")] = "",
    as_json: AsJson = False,
) -> None:
    """Set a price from tomorrow or a later day on (superadmins). Earlier use keeps its price."""
    first = since or (datetime.now(UTC).date() + timedelta(days=1)).isoformat()
    made = get_client(context).prices.set(resource, since=_day(first), per_hour=_number(price))
    show_json(made) if as_json else show_table(("resource", "per hour", "from"), [_price_row(made)])


@price_app.command("delete")
def delete_price(
    context: typer.Context,
    resource: Annotated[str, typer.Argument(help="cpu, mem or an accelerator.", show_default=False)],
    since: Annotated[
        str, typer.Option("--from", metavar="DAY", help="The day from which on it holds.", show_default=False)
    ],
) -> None:
    """Delete a price that starts tomorrow or later: the price before it continues."""
    get_client(context).prices.delete(resource, since=_day(since))


def _owner(user: str, project: str) -> tuple[str, str]:
    if bool(user) == bool(project):
        raise InvalidInput("Say whose budget it is.", hint="One of --user, --project.")
    return ("user", user) if user else ("project", project)


def _changes(
    amount: str, unit: str, period: str, first: str, last: str, warn: int | None, is_hard: bool | None
) -> dict[str, Any]:
    """Return the given fields as the API takes them; omits the others. Raises InvalidInput."""
    if unit and unit not in UNITS:
        raise InvalidInput(f"“{unit[:20]}” is nothing that a budget counts.", hint="Use money or hours.")
    if period and period not in PERIODS:
        raise InvalidInput(f"“{period[:20]}” is no period.", hint=f"Use {', '.join(PERIODS)}.")
    fields = {
        "amount": amount and _number(amount),
        "unit": UNITS.get(unit),
        "period": period,
        "starts_on": first and _day(first),
        "ends_on": last and _day(last),
        "warn_percent": warn,
        "is_hard": is_hard,
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _number(text: str) -> str:
    if not NUMBER.fullmatch(text):
        raise InvalidInput(f"“{text[:40]}” is no amount.", hint="Write it like 100 or 99.50.")
    return text


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as exc:
        raise InvalidInput(f"“{text[:40]}” is no day.", hint="Write it like 2026-09-01.") from exc


def _unit(budget: Budget) -> str:
    if budget.currency:
        return budget.currency
    return next((word for word, unit in UNITS.items() if unit == budget.unit), budget.unit)


def _state(budget: Budget) -> str:
    if not budget.is_current:
        return "not now"
    if budget.is_used_up:
        return "refuses" if budget.is_hard else "used up"
    return "nearly used up" if budget.is_nearly_used_up else ""


def _days(one: Budget | BudgetImpact) -> str:
    last = date.fromisoformat(one.end) - timedelta(days=1)
    return f"{one.first} to {last.isoformat()}"


def _price_row(price: Price) -> tuple[str, str, str]:
    return price.slot_name, f"{price.per_hour} {price.currency}".strip(), price.since


def _show(budget: Budget, *, as_json: bool) -> None:
    if as_json:
        show_json(budget)
        return
    show_facts(
        {
            "id": budget.id,
            budget.level: budget.owner,
            "counts": _unit(budget),
            "amount": budget.amount,
            "spent": budget.spent,
            "left": budget.left,
            "state": _state(budget),
            "period": f"{budget.period}, {_days(budget)}",
            "warns at": f"{budget.warn_percent} %",
            "used up": "refuses new sessions" if budget.is_hard else "only warns",
        }
    )


def _show_impact(impact: BudgetImpact, *, as_json: bool) -> None:
    if as_json:
        show_json(impact)
        return
    show_facts(
        {
            "owner": impact.owner,
            "people": impact.people,
            "spent already": f"{impact.spent} of {impact.amount}",
            "period": _days(impact),
        }
    )
    if impact.refuses:
        note("It would refuse new sessions at once.")
    elif impact.is_nearly_used_up:
        note("It would warn at once.")
