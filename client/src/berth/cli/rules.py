"""Commands `project rule`: membership rules of a project (administrators of the domain)."""

from typing import Annotated

import typer

from berth.cli.context import AsJson, get_client
from berth.cli.groups import ProjectName
from berth.cli.output import say, show_json, show_table
from berth.people import MemberRules

rule_app = typer.Typer(no_args_is_help=True, help="Membership rules of a project.")

Everybody = Annotated[bool, typer.Option("--everybody", help="Everybody of the domain.")]
Mail = Annotated[
    list[str] | None,
    typer.Option(
        "--mail",
        metavar="DOMAIN",
        help="People whose address ends with @DOMAIN; any number.",
        show_default=False,
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="PROVIDER:GROUP",
        help="People of a group of an identity provider; any number.",
        show_default=False,
    ),
]


@rule_app.command("list")
def list_rules(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """List the membership rules of a project. A user who matches one rule is a member."""
    projects = get_client(context).managed_projects
    _show(projects.rules(projects.find(project).id), as_json=as_json)


@rule_app.command("preview")
def preview_rules(
    context: typer.Context,
    project: ProjectName,
    everybody: Everybody = False,
    mail: Mail = None,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Show which users would join and leave by these rules, without changing anything."""
    projects = get_client(context).managed_projects
    impact = projects.impact_of_rules(projects.find(project).id, _rules(everybody, mail, group))
    if as_json:
        show_json(impact)
        return
    say(f"{impact.joining_count} join, {impact.leaving_count} leave.")
    rows = [("joins", one) for one in impact.joining] + [("leaves", one) for one in impact.leaving]
    show_table(("what", "e-mail"), rows, empty="Nobody.")


@rule_app.command("set")
def set_rules(
    context: typer.Context,
    project: ProjectName,
    everybody: Everybody = False,
    mail: Mail = None,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Replace the membership rules of a project; without any rule, nobody is a member by rule."""
    projects = get_client(context).managed_projects
    _show(projects.set_rules(projects.find(project).id, _rules(everybody, mail, group)), as_json=as_json)


def _rules(everybody: bool, mail: list[str] | None, group: list[str] | None) -> list[tuple[str, str]]:
    return [
        *([("all", "")] if everybody else []),
        *(("mail", name) for name in mail or ()),
        *(("group", name) for name in group or ()),
    ]


def _show(found: MemberRules, *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    show_table(("kind", "value"), [(rule.kind, rule.value) for rule in found.rules], empty="No rules.")
    for failure in found.failures:
        say(f"Could not be followed for {failure.email}: {failure.reason}")
