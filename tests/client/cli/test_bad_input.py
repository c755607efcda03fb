"""Each wrong value on the command line is refused with the portal's message, and nothing is created."""

from collections.abc import Iterator

import pytest

from sessions_app.models import ComputeSession
from tests.bad_input import UNMET, UNREADABLE, Bad, some_of_each_field
from tests.client.conftest import Command
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]

OPTIONS = {
    "name": "name",
    "project": "project",
    "resource_group": "group",
    "resources.cpu": "cpu",
    "resources.mem": "mem",
    "resources.shm": "shm",
    "callback_url": "callback",
    "designated_agent": "agent",
    "device_model": "gpu-model",
    "device_mem": "gpu-min-mem",
    "device_api": "gpu-min-version",
    "isolation": "isolation",
    "placement_group": "placement-group",
}
EXIT_CODES = {400: 2, 404: 3, 413: 4, 422: 4}
# An empty option is one that is not given; whatever begins a path is told by the colon in front of it.
UNSAID = ("",)


def as_arguments(bad: Bad, place: Place) -> list[str] | None:
    """`berth start` or `run` with this value; None where the command line has no way to say it."""
    value, image = bad.value, place.image.reference
    said = ["start", image, "--detach", f"--group={place.group.name}", f"--project={place.project.name}"]
    is_amount = bad.field.startswith("resources.") and isinstance(value, int) and not isinstance(value, bool)
    if is_amount and value < 10**12:
        value = str(value)
    if bad.field in OPTIONS and isinstance(value, str) and value not in UNSAID:
        return [*said, f"--{OPTIONS[bad.field]}={value}"]
    if bad.field == "image" and isinstance(value, str) and value:
        return ["start", "--detach", *said[3:], "--", value]
    if bad.field == "mounts.0.folder" and isinstance(value, str) and value:
        return [*said, f"--mount={value}"]
    if bad.field == "mounts.0.path" and isinstance(value, str) and value:
        return [*said, f"--mount=data:{value}"]
    if (
        bad.field == "environment"
        and isinstance(value, dict)
        and all(isinstance(one, str) for one in value.values())
    ):
        return [*said, *(f"--env={name}={text}" for name, text in value.items())]
    if bad.field == "array" and isinstance(value, str) and "Only batch" not in bad.says:
        return ["run", image, *said[2:], f"--array={value}", "--", "true"]
    if bad.field == "command" and isinstance(value, str) and value != "ls":
        return ["run", image, *said[2:], "--", value]
    if bad.field == "resources.mig" and not isinstance(value, str):
        return None
    if bad.field.startswith("resources.") and bad.field not in OPTIONS:
        beside = [f"--resource={name}={amount}" for name, amount in bad.beside.items()]
        return [*said, *beside, f"--resource={bad.field.partition('.')[2]}={value}"]
    return None


def sayable(rows: tuple[Bad, ...], place: Place) -> Iterator[tuple[Bad, list[str]]]:
    for bad in rows:
        arguments = as_arguments(bad, place)
        if arguments is not None:
            yield bad, arguments


@pytest.mark.parametrize("rows", [UNREADABLE, UNMET], ids=["unreadable", "unmet"])
def test_wrong_values_are_refused_and_nothing_is_made(
    rows: tuple[Bad, ...], berth: Command, place: Place
) -> None:
    wrong = []
    said = list(sayable(rows, place))
    assert len(said) > len(rows) / 2
    chosen = some_of_each_field(bad for bad, _ in said)
    for bad, arguments in (each for each in said if each[0] in chosen):
        done = berth(*arguments)
        first, *rest = done.err.splitlines() or [""]
        is_here = (
            bad.field == "image" and done.code == 3 and "There is no image" in first
        )  # asked for before it is sent
        is_unsendable = "is not UTF-8" in first and done.code == 2
        is_told = done.code == EXIT_CODES[bad.status] and bad.says in done.err
        is_short = first.startswith("berth: ") and len(rest) < 10 and all(len(line) < 1000 for line in rest)
        if done.out or not is_short or not (is_told or is_here or is_unsendable):
            wrong.append((str(bad), done))
    assert wrong == []
    assert not ComputeSession.objects.exists()
