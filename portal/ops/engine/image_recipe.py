"""Recipe of a session image: a folder with recipe.json, install.sh and further files."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).resolve().parents[3] / "images" / "recipes" / "python"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe folder: its recipe.json, all its files, and the reference of the resulting image."""

    settings: Mapping[str, Any]
    files: Mapping[str, bytes]
    digest: str

    @property
    def reference(self) -> str:
        return f"{self.settings['name']}:{self.settings['version']}-{self.digest[:12]}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "io.berth.role": "session-image",
            "io.berth.recipe": self.digest,
            "io.berth.title": self.settings["title"],
            "io.berth.description": self.settings["description"],
            "io.berth.icon": self.settings["icon"],
            "io.berth.readonly-root": str(self.settings.get("readonly_root", False)).lower(),
            "io.berth.apps": json.dumps(self.settings["apps"], separators=(",", ":")),
            **{f"io.berth.min.{slot}": amount for slot, amount in self.settings["minimum"].items()},
        }


def read_recipe(folder: Path = RECIPE) -> Recipe:
    """Return the recipe in a folder. Its digest covers only each file's path and content."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return Recipe(settings=json.loads(files["recipe.json"]), files=files, digest=digest.hexdigest())
