"""Options of the commands that ask for accelerators, and their conversion to request fields."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from berth.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class AcceleratorOptions:
    """Options that say how many accelerators, which part of one, and what they must be."""

    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            metavar="COUNT",
            help="Accelerators, of the only kind in the group; of several, name one: --resource cuda=2.",
            show_default=False,
        ),
    ] = ""
    gpu_model: Annotated[
        str,
        typer.Option(
            "--gpu-model", metavar="MODEL", help="Accelerator model or a part of its name, like H100."
        ),
    ] = ""
    gpu_share: Annotated[
        str,
        typer.Option("--gpu-share", metavar="PART", help="Part of one accelerator, like 0.5."),
    ] = ""
    gpu_mem: Annotated[
        str,
        typer.Option(
            "--gpu-mem", metavar="AMOUNT", help="Part of one accelerator with this memory, like 20g."
        ),
    ] = ""
    gpu_cores: Annotated[
        str,
        typer.Option(
            "--gpu-cores",
            metavar="PERCENT",
            help="Part of one accelerator with this percentage of its compute.",
        ),
    ] = ""
    gpu_min_mem: Annotated[
        str,
        typer.Option("--gpu-min-mem", metavar="AMOUNT", help="Least memory of each accelerator, like 40g."),
    ] = ""
    gpu_min_version: Annotated[
        str,
        typer.Option(
            "--gpu-min-version",
            metavar="VERSION",
            help="Least version of CUDA or ROCm that the driver supports, like 12.4.",
        ),
    ] = ""
    gpu_linked: Annotated[
        bool, typer.Option("--gpu-linked", help="All accelerators are linked with each other (NVLink).")
    ] = False
    mig: Annotated[
        list[str] | None,
        typer.Option(
            "--mig",
            metavar="PROFILE[=COUNT]",
            help="MIG slices, like 1g.10gb or 1g.10gb=2.",
            show_default=False,
        ),
    ] = None
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="Least isolation of a part: none, cooperative, server, driver or hardware.",
            show_default=False,
        ),
    ] = ""

    def amounts(self) -> dict[str, Any]:
        """Return the accelerators as resources of the REST body. Raises InvalidInput."""
        if self.gpu and self.gpu_share:
            raise InvalidInput("Say --gpu for whole accelerators or --gpu-share for a part of one, not both.")
        if self.gpu_share and not _is_part(self.gpu_share):
            raise InvalidInput(
                "--gpu-share is a part of one accelerator: more than 0 and less than 1, like 0.5."
            )
        amounts: dict[str, Any] = {
            "gpu": self.gpu or self.gpu_share,
            "gpu.mem": self.gpu_mem,
            "gpu.cores": self.gpu_cores,
            "mig": {
                profile: count or "1"
                for profile, _, count in (text.partition("=") for text in self.mig or ())
            },
        }
        return {name: amount for name, amount in amounts.items() if amount}

    def demands(self) -> dict[str, Any]:
        """Return what each of them must be, as fields of the REST body."""
        return {
            "device_model": self.gpu_model,
            "device_mem": self.gpu_min_mem,
            "device_api": self.gpu_min_version,
            "linked_devices": self.gpu_linked,
            "isolation": self.isolation,
        }


def _is_part(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False
