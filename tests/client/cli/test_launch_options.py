"""Options of the commands that start sessions: accelerators, placement groups."""

from pathlib import Path
from typing import Any

import pytest

from berth.cli.accelerator_options import AcceleratorOptions
from berth.cli.launch_options import placement_rule_name
from berth.errors import InvalidInput
from sessions_app.models import ComputeSession
from tests.client.conftest import Command
from tests.factories_devices import give_devices
from tests.factories_sessions import GIB, Place


@pytest.mark.parametrize(
    ("options", "amounts"),
    [
        ({}, {}),
        ({"gpu": "2"}, {"gpu": "2"}),
        ({"gpu_share": "0.5"}, {"gpu": "0.5"}),
        ({"gpu_mem": "20g", "gpu_cores": "30"}, {"gpu.mem": "20g", "gpu.cores": "30"}),
        ({"mig": ["1g.10gb"]}, {"mig": {"1g.10gb": "1"}}),
        ({"mig": ["1g.10gb=2"]}, {"mig": {"1g.10gb": "2"}}),
    ],
)
def test_options_mean_amounts(options: dict[str, Any], amounts: dict[str, Any]) -> None:
    assert AcceleratorOptions(**options).amounts() == amounts


@pytest.mark.parametrize(
    "options",
    [{"gpu": "1", "gpu_share": "0.5"}, {"gpu_share": "0"}, {"gpu_share": "1.5"}, {"gpu_share": "half"}],
)
def test_a_share_is_less_than_one_device_and_excludes_whole_ones(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="--gpu-share"):
        AcceleratorOptions(**options).amounts()


@pytest.mark.django_db(transaction=True)
def test_sessions_get_the_accelerators_that_options_and_files_name(
    berth: Command, place: Place, tmp_path: Path
) -> None:
    give_devices(place.agent, 4, "NVIDIA H100 80GB HBM3", slot="cuda", mem_bytes=80 * GIB, api_version=12080)
    image, project = place.image.reference, f"--project={place.project.name}"
    start = ("start", image, "--detach", project, f"--group={place.group.name}", "--cpu=0.1", "--mem=64m")
    whole = ("--gpu=2", "--gpu-model=h100", "--gpu-min-mem=40g", "--gpu-min-version=12.4", "--gpu-linked")
    file = tmp_path / "session.yaml"
    file.write_text(
        f"name: filed\nproject: {place.project.name}\nimage: {image}\nresource_group: {place.group.name}\n"
        "resources:\n  cpu: 0.1\n  mem: 64m\n  cuda.mem: 20g\n  cuda.cores: 30\n"
    )
    commands = (
        (*start, "--name=whole", *whole),
        (*start, "--name=part", "--gpu-mem=20g", "--isolation=none"),
        (*start, "--name=half", "--gpu-share=0.5"),
        ("create", "-f", str(file)),
    )

    done = [berth(*command) for command in commands]

    assert [each.code for each in done] == [0, 0, 0, 0], done
    found = {session.name: session for session in ComputeSession.objects.all()}
    shares = {name: session.requested_slots["cuda"] for name, session in found.items()}
    assert shares == {"whole": 2000, "part": 250, "half": 500, "filed": 300}
    asked = found["whole"]
    assert (asked.device_model, asked.device_mem_bytes) == ("NVIDIA H100 80GB HBM3", 40 * GIB)
    assert (asked.device_api_version, asked.linked_devices) == (12040, True)
    assert (found["filed"].device_share_mem_bytes, found["filed"].device_share_cores) == (20 * GIB, 30)
    assert "part of an accelerator" in berth("show", "filed").out
    checked = berth("check", image, project, f"--group={place.group.name}", *whole)
    assert (checked.code, "cuda 2" in checked.out) == (0, True), checked
    refused = berth(*start, "--name=more", "--gpu=9")
    assert (refused.code, "4 × NVIDIA GPU" in refused.err) == (4, True)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, ""),
        ({"spread": True}, "spread"),
        ({"pack": True}, "pack"),
        ({"spread": True, "strict": True}, "strict_spread"),
        ({"pack": True, "strict": True}, "strict_pack"),
    ],
)
def test_options_mean_a_rule(options: dict[str, bool], rule: str) -> None:
    assert placement_rule_name(**{"spread": False, "pack": False, "strict": False, **options}) == rule


@pytest.mark.parametrize("options", [{"spread": True, "pack": True}, {"strict": True}])
def test_what_means_none_is_refused(options: dict[str, bool]) -> None:
    with pytest.raises(InvalidInput, match="--pack"):
        placement_rule_name(**{"spread": False, "pack": False, "strict": False, **options})
