"""User text near a shell is always one argument."""

import shlex
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from sessions_app.core.container_spec import (
    HOME,
    KernelPlan,
    MountRequest,
    build_app_argv,
    build_container_spec,
)
from tests.bad_input import SHELL

NASTY = (*SHELL, "a\nreboot", "'; reboot #", '"; reboot #', "{token}", "{port}", "${IFS}", "!!", "\\'", "é🚢")


def spec_with(nasty: str, *, command: str):  # type: ignore[no-untyped-def]
    return build_container_spec(
        KernelPlan(
            installation=nasty,
            session_id=UUID(int=1),
            kernel_id=UUID(int=2),
            attempt=1,
            session_name=nasty,
            project=nasty,
            kernel_name="main1",
            image=nasty,
            command=command,
            slots=ResourceSlots({"cpu": 1000, "mem": 2**30}),
            shm_bytes=2**26,
            environment={"A": nasty},
            mounts=(MountRequest(source="/data/x", path=f"{HOME}/{nasty}", is_readonly=False),),
            uid=1000,
            gid=1000,
            network_pool="10.213.0.0/16",
        )
    )


@pytest.mark.parametrize("nasty", NASTY)
def test_nothing_but_the_command_reaches_the_containers_argv(nasty: str) -> None:
    assert spec_with(nasty, command="").command == spec_with("harmless", command="").command


@pytest.mark.parametrize("nasty", NASTY)
def test_a_command_is_one_argument_as_it_was_written(nasty: str) -> None:
    assert spec_with("harmless", command=nasty).command[-1] == nasty
    assert len(spec_with("harmless", command=nasty).command) == len(
        spec_with("harmless", command="true").command
    )


@pytest.mark.parametrize("nasty", NASTY)
def test_names_and_places_are_values_and_no_words_of_a_shell(nasty: str) -> None:
    spec = spec_with(nasty, command="true")
    assert spec.environment["A"] == spec.environment["BERTH_SESSION_NAME"] == nasty
    assert f"{HOME}/{nasty}" in [mount.target for mount in spec.mounts]


@pytest.mark.parametrize("nasty", NASTY)
def test_the_place_where_an_app_begins_is_one_word(nasty: str) -> None:
    start_dir = f"{HOME}/{nasty}"
    *_, line = build_app_argv(("lab", "--dir={start_dir}", "--port={port}"), port=8888, start_dir=start_dir)
    words = shlex.split(line.removeprefix("exec ").partition(" >/proc/")[0])
    assert words == ["lab", f"--dir={start_dir}", "--port=8888"]
