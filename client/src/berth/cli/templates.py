"""Commands `template`: list, show, save, start and delete session templates."""

from typing import Annotated

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, say, show_facts, show_json, show_table
from berth.cli.request_file import read_request
from berth.cli.sessions import show_progress, show_started
from berth.templates import Template

app = typer.Typer(no_args_is_help=True, help="Session templates: saved session requests.")

TemplateName = Annotated[str, typer.Argument(metavar="TEMPLATE", help="Name, or id.", show_default=False)]


@app.command("list")
def list_templates(context: typer.Context, as_json: AsJson = False) -> None:
    """List templates: your own, and those of your projects, your domain and everybody."""
    found = list(get_client(context).templates.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id,
            one.name,
            _whose(one),
            one.body.get("image", ""),
            one.description,
            format_age(one.changed_at),
        )
        for one in found
    ]
    show_table(("id", "name", "whose", "image", "description", "changed"), rows, empty="No templates.")


@app.command("show")
def show(context: typer.Context, template: TemplateName, as_json: AsJson = False) -> None:
    """Show a template."""
    found = get_client(context).templates.find(template)
    if as_json:
        show_json(found)
        return
    facts = {"id": found.id, "name": found.name, "whose": _whose(found), "description": found.description}
    show_facts({**facts, **{name: str(value) for name, value in found.body.items()}})


@app.command("save")
def save(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name.", show_default=False)],
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", metavar="FILE", help="YAML or JSON as for berth create; - is standard input."
        ),
    ],
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    sharing: Annotated[
        str, typer.Option("--sharing", help="Who sees it: own, project, domain or everybody.")
    ] = "own",
    place: Annotated[
        str, typer.Option("--of", help="Project, domain/project or domain to share it with.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Save a request from a file as a template, without variables that seem to be secrets."""
    saved = get_client(context).templates.save(
        name, read_request(file), description=description, sharing=sharing, place=place
    )
    if as_json:
        show_json(saved)
        return
    say(str(saved.id))
    if saved.left_out:
        note(f"Left out, because they sound like secrets: {', '.join(saved.left_out)}.")


@app.command("start")
def start(
    context: typer.Context,
    template: TemplateName,
    name: Annotated[
        str, typer.Option("--name", "-n", help="Name of the session; generated if not given.")
    ] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="Project that it belongs to.")] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until it runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a session from a template, and wait until it runs."""
    client = get_client(context)
    session = client.templates.start(client.templates.find(template).id, name=name, project=project)
    if not detach:
        show_progress(session)
        session = session.wait_running(on_change=show_progress)
    show_started(session, as_json=as_json)


@app.command("delete")
def delete(context: typer.Context, template: TemplateName) -> None:
    """Delete a template; sessions started from it stay."""
    client = get_client(context)
    client.templates.delete(client.templates.find(template).id)


def _whose(template: Template) -> str:
    return template.project or template.domain or ("you" if template.sharing == "own" else "everybody")
