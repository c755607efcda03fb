"""`manage.py simulated_cluster simulate|clear`: runs the simulated cluster for bin/cluster."""

import signal
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management import BaseCommand, CommandError
from django.db import IntegrityError

from agents.machines.simulation import MachineShape
from agents.models import ResourceGroup
from agents.runtime.simulated.state import Behaviour
from portal.demo import simulated_cluster
from sessions_app.models import ComputeSession

MOST_AGENTS = 50_000
MOST_WAITING = 2000


class Command(BaseCommand):
    help = "Fill a portal with machines that run nothing, and with work for them; remove it all again."

    def add_arguments(self, parser: ArgumentParser) -> None:  # type: ignore[override]
        kinds = parser.add_subparsers(dest="kind", required=True, metavar="simulate|clear")
        simulate = kinds.add_parser("simulate", help="add machines, and with --load submit work until Ctrl-C")
        for name, default, type_, help_ in (
            ("agents", 100, _count, f"how many machines, at most {MOST_AGENTS:,}"),
            ("cpu", 64, _count, "cores of each"),
            ("mem", 512, _count, "GiB of each"),
            ("gpus", 8, _natural, "GPUs of each"),
            ("start-seconds", 0.0, _seconds, "a container takes so long to start"),
            ("run-seconds", 300.0, _seconds, "a session runs so long on the average; 0: until it is stopped"),
            ("fail-rate", 0.0, _share, "share of sessions that fail, 0 to 1"),
            ("lose-rate", 0.0, _share, "share of machines that do not answer, 0 to 1; each for ten minutes"),
            ("load", 0.0, _seconds, "sessions a second, many in arrays; 0: none"),
            ("load-seconds", 0.0, _seconds, "submit for so long; 0: until Ctrl-C"),
            ("most-waiting", MOST_WAITING, _count, "submit no more while so many wait"),
        ):
            simulate.add_argument(f"--{name}", default=default, type=type_, help=f"{help_} ({default})")
        simulate.add_argument(
            "--group", default=simulated_cluster.GROUP, help="resource group of their own (simulated)"
        )
        simulate.add_argument("--gpu-model", default="", help="what these GPUs are, like “NVIDIA H100”")
        simulate.add_argument(
            "--fractional", action="store_true", help="sessions ask for a part of a GPU instead of one"
        )
        simulate.add_argument("--keep", action="store_true", help="leave all as it is at the end")
        kinds.add_parser("clear", help="remove all that was simulated, of all groups, and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            (self._clear if options["kind"] == "clear" else self._simulate)(options)
        except simulated_cluster.Unsafe as error:
            raise CommandError(str(error)) from error

    def _simulate(self, options: dict[str, Any]) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        rates = (options[name] for name in ("start_seconds", "run_seconds", "fail_rate", "lose_rate"))
        shape = MachineShape(
            options["cpu"], options["mem"], options["gpus"], Behaviour(*rates), options["gpu_model"]
        )
        try:
            group = simulated_cluster.make_cluster(
                count=options["agents"], shape=shape, group_name=options["group"]
            )
            self._say(f"{options['agents']} machines in the resource group “{group}”")
            if options["load"]:
                self._load(group, options)
            elif not options["keep"]:
                self._say("Ctrl-C removes them; so does bin/cluster clear")
                signal.pause()
        except KeyboardInterrupt:
            self._say("")
        self._end(options)

    def _end(self, options: dict[str, Any]) -> None:
        if not options["keep"]:
            self._tell(simulated_cluster.clear_group(options["group"]))

    def _load(self, group: ResourceGroup, options: dict[str, Any]) -> None:
        people = simulated_cluster.simulated_people(group)
        self._say("submitting; Ctrl-C ends it")
        tallies = simulated_cluster.submit(
            people,
            per_s=options["load"],
            seconds=options["load_seconds"],
            most_waiting=options["most_waiting"],
            has_gpus=options["gpus"] > 0,
            is_fractional=options["fractional"],
        )
        for tally in tallies:
            rows = ComputeSession.objects.filter(resource_group=group)
            live = rows.live().count()
            ended = rows.ended().count()
            self._say(
                f"{tally.submitted} submitted, {tally.refused} refused, {live} alive, {ended} ended", end="\r"
            )

    def _clear(self, _options: dict[str, Any]) -> None:
        try:
            self._tell(simulated_cluster.clear())
        except IntegrityError as error:  # a session was submitted meanwhile
            raise CommandError(
                "Sessions are submitted there still. End bin/cluster simulate with Ctrl-C, and clear again."
            ) from error

    def _tell(self, done: simulated_cluster.Cleared) -> None:
        retired = (
            f"; {done.retired} machines retired, for sessions of people name them" if done.retired else ""
        )
        self._say(f"removed {done.agents} machines and {done.sessions} sessions{retired}")
        if done.kept:
            self._say(f"kept, for others are or have something in them: {', '.join(done.kept)}")

    def _say(self, text: str, end: str = "\n") -> None:
        self.stdout.write(f"cluster  | {text}", ending=end)
        self.stdout.flush()


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_AGENTS:
        raise ArgumentTypeError(f"“{text}” is not a number from 0 to {MOST_AGENTS}")
    return int(text)


def _count(text: str) -> int:
    if not (number := _natural(text)):
        raise ArgumentTypeError("ask for at least 1")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise ArgumentTypeError(f"“{text}” is not a number from 0 to 999999")
    return number


def _share(text: str) -> float:
    if (share := _seconds(text)) > 1:
        raise ArgumentTypeError(f"“{text}” is not a share from 0 to 1")
    return share
