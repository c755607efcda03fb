"""`manage.py first_run`: prepares an installation so that sessions can be started. Runs at each
start.

Users are created only if there are none; the machine, its storage and its session image are
registered or refreshed each time. One at a time, also on several machines.
"""

import json
import os
import re
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.core.roles import ProjectRole, Role
from accounts.credentials.keypairs import create_keypair
from accounts.models import Project, User
from accounts.tenancy.service import add_member, create_domain, create_project, create_user
from agents.core.states import AgentState
from agents.machines.network_isolation import IsolationMissing, require_isolation
from agents.machines.service import refresh_agent, register_agent
from agents.models import Agent, ResourceGroup
from agents.resource_groups.service import create_resource_group
from agents.runtime.port import RuntimeFault
from agents.runtime.registry import runtime_for
from agents.selectors import runtime_of
from common.actors import SYSTEM, Actor, ActorKind
from common.db.advisory_locks import wait_exclusive
from common.errors import BerthError
from images.services import discover_image
from vfolders.services import ensure_default_host, mark_storage

SET_UP = "portal.set_up"
SUPERADMIN = ("admin@berth.example", Role.SUPERADMIN, ProjectRole.MEMBER)
DEMO_PEOPLE = (
    ("domain-admin@berth.example", Role.DOMAIN_ADMIN, ProjectRole.MEMBER),
    ("user@berth.example", Role.USER, ProjectRole.MEMBER),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Account as written to the credentials file."""

    role: str
    email: str
    password: str
    token: str


class Command(BaseCommand):
    help = "Make the first domain, project and people; register this machine, its storage and its image."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", type=Path, required=True, help="where to write addresses and passwords")
        parser.add_argument("--no-demo", action="store_true", help="only the superadmin, no further people")
        parser.add_argument("--image", default="", help="the session image that was built for this machine")
        parser.add_argument("--no-agent", action="store_true", help="do not register this machine")

    def handle(self, *args: Any, **options: Any) -> None:
        with wait_exclusive(SET_UP):
            self._set_up(options)

    def _set_up(self, options: dict[str, Any]) -> None:
        try:
            self._make_people(options["json"], has_demo=not options["no_demo"])
            ensure_default_host()
            mark_storage()
            if not options["no_agent"]:
                agent = self._look_at_this_machine()
                self._look_at_image(agent, options["image"])
        except BerthError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error

    def _make_people(self, file: Path, *, has_demo: bool) -> None:
        if User.objects.exists():
            update_url(file)
            return
        with transaction.atomic():
            project_name = "demo" if has_demo else "default"
            domain = create_domain(actor=SYSTEM, name="default", title="Default")
            project = create_project(
                actor=SYSTEM, domain=domain, name=project_name, title=project_name.capitalize()
            )
            people = (SUPERADMIN, *DEMO_PEOPLE) if has_demo else (SUPERADMIN,)
            known = [make_person(project, *person) for person in people]
            # Before the commit: accounts with lost passwords would be worse than an unused file.
            write_secret(file, {"url": settings.BERTH_URL, "users": [asdict(person) for person in known]})
        self.stdout.write(f"Made {len(known)} accounts in the domain “default”.")

    def _look_at_this_machine(self) -> Agent:
        """Register or refresh this machine's engine as an agent; a retired one stays retired."""
        address = settings.BERTH_ENGINE
        if not ResourceGroup.objects.filter(is_default=True).exists():
            create_resource_group(actor=SYSTEM, name="default", is_default=True)
        known = Agent.objects.filter(address=address).first() or agent_of_engine(address)
        if known is None:
            agent = register_agent(actor=SYSTEM, name=machine_name(), address=address)
            self.stdout.write(f"Registered this machine as the agent “{agent.name}”.")
            return agent
        if known.state == AgentState.RETIRED:
            return known
        return refresh_agent(actor=SYSTEM, agent_id=known.pk)

    def _look_at_image(self, agent: Agent, reference: str) -> None:
        if not reference:
            return
        try:
            facts = runtime_of(agent).inspect_image(reference)
        except RuntimeFault as fault:
            raise CommandError(f"The engine of “{agent.name}” did not answer: {fault}") from fault
        if facts is None:
            raise CommandError(f"The engine of “{agent.name}” does not hold the image {reference}.")
        discover_image(actor=SYSTEM, reference=reference, facts=facts)
        try:
            require_isolation(agent)
        except IsolationMissing as fault:
            self.stderr.write(
                f"No session starts on “{agent.name}”: {fault} docs/subsystems/agents.md says more."
            )


def agent_of_engine(address: str) -> Agent | None:
    """Return the agent that reaches this engine by another address, in use or else retired; None
    without an answer.
    """
    try:
        engine_id = runtime_for(address).info().engine_id
    except RuntimeFault:
        return None
    known = Agent.objects.filter(engine_id=engine_id)
    return known.in_use().first() or known.first()


def make_person(project: Project, email: str, role: Role, project_role: ProjectRole) -> Credentials:
    """Create an account with a random password and a token, as member of `project`."""
    password = secrets.token_urlsafe(15)
    user = create_user(actor=SYSTEM, email=email, password=password, domain=project.domain, role=role)
    add_member(actor=SYSTEM, project=project, user=user, role=project_role)
    themselves = Actor(kind=ActorKind.USER, user_id=user.pk, label=user.email, domain_id=user.domain_id)
    _, token = create_keypair(actor=themselves, name="first run")
    return Credentials(role=role.value, email=email, password=password, token=token)


def machine_name() -> str:
    """Return the host name in the form of an agent name."""
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return name[:64].strip("-") or "this-machine"


def update_url(file: Path) -> None:
    """Update the URL in the file, as the portal may use another port now; keep the rest."""
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return
    if content.get("url") != settings.BERTH_URL:
        write_secret(file, {**content, "url": settings.BERTH_URL})


def write_secret(file: Path, content: dict[str, Any]) -> None:
    """Replace `file` atomically, with mode 0600."""
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        json.dump(content, output, indent=2)
        output.write("\n")
        output.flush()
        os.fsync(output.fileno())
    unfinished.rename(file)
