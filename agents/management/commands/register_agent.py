"""Registers a machine as an agent: `bin/manage register_agent gpu-01 tcp://gpu-01:2376 --tls
/etc/berth/gpu-01`.
"""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.connections.pasted import PastedCertificates
from agents.connections.service import NewAgent, add_agent
from agents.selectors import access_resource_group
from common.actors import SYSTEM
from common.errors import BerthError
from common.values.resources import format_slots


def read_certificates(directory: Path) -> PastedCertificates:
    """Return the certificates in a directory. Raises CommandError."""
    try:
        texts = [(directory / f"{name}.pem").read_text() for name in ("ca", "cert", "key")]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The certificates in {directory} cannot be read: {error}") from error
    return PastedCertificates(*texts)


class Command(BaseCommand):
    help = "Register a machine, or look at a known one again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("address", help="unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host")
        parser.add_argument(
            "--tls", default="", metavar="DIR", help="directory with ca.pem, cert.pem and key.pem"
        )
        parser.add_argument(
            "--group", default="", help="resource group; if not given, that in which it is, else the default"
        )

        parser.add_argument(
            "--yes", action="store_true", help="the address is meant, even if it is of this machine"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        group = options["group"]
        try:
            new = NewAgent(
                name=options["name"],
                address=options["address"],
                certificates=read_certificates(Path(options["tls"])) if options["tls"] else None,
                resource_group=access_resource_group(SYSTEM, group) if group else None,
                is_confirmed=options["yes"],
            )
            agent = add_agent(actor=SYSTEM, new=new)
        except BerthError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self.stdout.write(f"{agent.name} is {agent.state}: {format_slots(agent.capacity)}")
