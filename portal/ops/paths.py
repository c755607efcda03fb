"""Where everything that bin/up makes stands: in the checkout and in the data directory, nowhere else but quarters."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one installation. The checkout may serve several data directories at once."""

    checkout: Path
    data: Path

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def node_modules(self) -> Path:
        return self.checkout / "node_modules"

    @property
    def assets(self) -> Path:
        return self.checkout / "var" / "assets"

    @property
    def languages(self) -> Path:
        return self.checkout / "var" / "languages"

    @property
    def static(self) -> Path:
        return self.checkout / "var" / "static"

    @property
    def beside_data(self) -> frozenset[Path]:
        """What may stand in the data directory, if that is in the checkout, and is none of a portal's data: what is built, and what
        tests and benches make."""
        made = (self.checkout / "var" / name for name in ("test", "bench"))
        return frozenset({self.assets, self.languages, self.static, *made})

    @property
    def env_file(self) -> Path:
        return self.data / "env"

    @property
    def lock_file(self) -> Path:
        """Held by the running bin/up, whose process id it contains."""
        return self.data / "up.lock"

    @property
    def first_run_file(self) -> Path:
        return self.data / "first-run.json"

    @property
    def quarters_link(self) -> Path:
        """Points to where the embedded servers live when their account cannot reach the data directory."""
        return self.data / "quarters"


def layout_of(data: str | None, checkout: Path = CHECKOUT) -> Layout:
    """The layout for `--data`; without it the data are in `var/` of the checkout."""
    return Layout(checkout=checkout, data=Path(data).expanduser().absolute() if data else checkout / "var")


def content_hash(paths: Iterable[Path]) -> str:
    """One short hash over names and contents of files, and of all files under directories; absent ones count as empty."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path.parent)}\0".encode())
            digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest()[:16]
