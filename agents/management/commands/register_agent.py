"""Registers a machine as an agent: `bin/manage register_agent gpu-01 tcp://gpu-01:2376 --tls
/etc/berth/gpu-01`.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.machines.service import register_agent
from agents.selectors import access_resource_group
from common.actors import SYSTEM
from common.errors import BerthError
from common.values.resources import format_slots


class Command(BaseCommand):
    help = "Register a machine, or look at a known one again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("address", help="unix:///var/run/docker.sock or tcp://host:2376")
        parser.add_argument(
            "--tls", default="", metavar="DIR", help="directory with ca.pem, cert.pem and key.pem"
        )
        parser.add_argument(
            "--group", default="", help="resource group; if not given, that in which it is, else the default"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        group = options["group"]
        try:
            agent = register_agent(
                actor=SYSTEM,
                name=options["name"],
                address=options["address"],
                tls_directory=options["tls"],
                resource_group=access_resource_group(SYSTEM, group) if group else None,
            )
        except BerthError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error
        self.stdout.write(f"{agent.name} is {agent.state}: {format_slots(agent.capacity)}")
