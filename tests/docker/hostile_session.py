"""Report of all attacks by a hostile session.

    python -m tests.docker.hostile_session

Runs every attack of `hostile.table` and `hostile.pressure` inside a session as Berth starts it, and once more in a
container that lacks the wall which held: an attack that fails there too would prove nothing. Prints the table and writes
docs/hostile-session.md.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # pytest has done this already
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()

from tests.docker.hostile.pressure import PRESSURES
from tests.docker.hostile.stage import Stage
from tests.docker.hostile.table import AREAS, ATTACKS, Without

THROUGH, HELD, ABSENT = "through", "held", "absent"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "hostile-session.md"
HEAD = """# What a hostile session tries

Written by `python -m tests.docker.hostile_session`; do not edit. Each attack runs inside a session as Berth starts it (our
session image, a real engine), and once more in a container that lacks the one wall: there it has to succeed, or the row
would prove nothing. A system call succeeds if the kernel looks at its arguments, which are wrong on purpose. What does not
succeed there either, the machine that wrote this page has not, or does not let even root do.
`bin/test` runs the same rows. What the walls are: [Agents](subsystems/agents.md), [ADR 13](adr/0013-harden-containers-with-seccomp-cpu-sets-and-read-only-root.md).
"""
TAIL = """
## What is not held
- **The disk.** A session's home and `/var/tmp` lie on the disk of the machine's engine, and nothing bounds them: engines can
  bound a volume only on XFS with project quotas. The rest of a session's file system is read-only (our image) and `/tmp`
  is in memory. Give `/var/lib/docker` a file system of its own, so that a full one is not the machine's.
- **What the kernel counts per user.** All sessions run as one user (`BERTH_CONTAINER_UID`), so they share inotify
  instances, pending signals and bytes of message queues. On machines with many sessions raise
  `fs.inotify.max_user_instances` and `fs.inotify.max_user_watches`.
- **The disk's bandwidth and the processor time of the engine**: output is written by the engine, not by the session. A flood
  of it is throttled by the engine's own pace, and is not charged to the session.
- **Faults of the kernel.** A container shares the kernel of its machine. The list of system calls makes the way to them
  narrower; it is no virtual machine.
- **The outside.** What the machine may reach beyond itself a session may reach too, but for metadata services, engines and
  other sessions.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attack in a session (`verdict`) and without the wall (`proof`), each with what was seen."""

    area: str
    name: str
    tries: str
    wall: str
    verdict: str
    seen: str
    proof: str
    proof_seen: str
    is_moody: bool = False

    @property
    def is_held(self) -> bool:
        return self.verdict != THROUGH

    @property
    def is_proven(self) -> bool:
        return self.proof == THROUGH


def run_attacks(stage: Stage) -> Iterator[Outcome]:
    """One outcome per row of the table, in its order."""
    inside = stage.start_session()
    held = stage.attempt(inside, [attack.name for attack in ATTACKS])
    proofs: dict[str, tuple[str, str]] = {}
    for wall in Without:
        rows = [attack.name for attack in ATTACKS if attack.without is wall]
        control = stage.start_without(wall)
        proofs |= stage.attempt(control, rows)
        stage.runtime.remove_container(control)
    stage.runtime.remove_container(inside)
    for area, attacks in AREAS.items():
        for attack in attacks:
            yield Outcome(
                area,
                attack.name,
                attack.tries,
                attack.wall,
                *held[attack.name],
                *proofs[attack.name],
                attack.is_moody,
            )


def run_pressures(stage: Stage) -> Iterator[Outcome]:
    for pressure in PRESSURES:
        verdict, proof = pressure.run(stage, True), pressure.run(stage, False)
        yield Outcome("Pressure", pressure.name, pressure.tries, pressure.wall, *verdict, *proof)


def page_of(outcomes: list[Outcome]) -> str:
    lines = [HEAD]
    through = [each for each in outcomes if not each.is_held]
    proven = sum(each.is_proven for each in outcomes)
    lines.append(
        f"{len(outcomes)} attacks: {len(through)} got through, {proven} are proven by their success without the wall."
    )
    for area in dict.fromkeys(each.area for each in outcomes):
        lines += [f"\n## {area}", "| Tried | Wall | In a session | Without that wall |", "|---|---|---|---|"]
        for each in outcomes:
            if each.area == area:
                verdict = f"held: {each.seen}" if each.is_held else f"**got through**: {each.seen}"
                proof = (
                    f"succeeds: {each.proof_seen}"
                    if each.is_proven
                    else f"not on this machine: {each.proof_seen}"
                )
                lines.append(f"| {each.tries} | {each.wall} | {verdict} | {proof} |")
    return "\n".join(lines) + "\n" + TAIL


def main() -> int:
    outcomes = []
    with tempfile.TemporaryDirectory() as data_dir, Stage(Path(data_dir)) as stage:
        for run in (run_attacks, run_pressures):
            for each in run(stage):
                outcomes.append(each)
                print(
                    f"{each.name:22} {each.verdict:8} {each.seen[:40]:42} without: {each.proof:8} {each.proof_seen[:40]}"
                )
    PAGE.write_text(page_of(outcomes))
    through = [each.name for each in outcomes if not each.is_held]
    unproven = [each.name for each in outcomes if not each.is_proven]
    print(
        f"{len(outcomes)} attacks; through: {through or 'none'}; not proven here: {unproven or 'none'}; wrote {PAGE}"
    )
    return 1 if through else 0


if __name__ == "__main__":
    sys.exit(main())
