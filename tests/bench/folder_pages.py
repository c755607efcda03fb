"""Measures lists of directories, ZIP streams and unpacking on this machine: `python -m tests.bench.folder_pages`.

Prints milliseconds of a page of 10,000 entries from directories of 10,000 and 100,000, MB/s of a stored ZIP archive, and
files/s of an unpacked archive of small files.
"""

import io
import os
import tempfile
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import django

from vfolders.core.paths import ROOT
from vfolders.storage import trash
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import Copying, FolderFiles
from vfolders.storage.listing import Order
from vfolders.storage.trees import NameTaken

ROUNDS = 5
ZIP_BYTES = 512 * 2**20
SMALL_FILES = 5000


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = LocalStorage(root, Owner(os.getuid(), os.getgid()))
        files = FolderFiles(storage, folder := uuid.uuid4())
        storage.create_folder(folder)
        top = Path(storage.folder_path(folder))
        for count in (10_000, 100_000):
            fill(top / str(count), count)
            for order in Order:
                report_ms(f"page of {count} by {order}", lambda: list_page(files, count, order))  # noqa: B023
        (top / "big").write_bytes(os.urandom(2**20) * (ZIP_BYTES // 2**20))
        report_rate(
            "ZIP stream", ZIP_BYTES / 1e6, "MB/s", lambda: sum(map(len, files.zip_stream([("big",)])))
        )
        (top / "small.zip").write_bytes(small_files())
        how = Copying(NameTaken.REFUSE, trash.new_batch(), lambda amount: None, [])
        report_rate(
            "unpacked",
            SMALL_FILES,
            "files/s",
            lambda: files.unpack(("small.zip",), files, ROOT, "small", copying=how),
        )


def fill(directory: Path, count: int) -> None:
    directory.mkdir()
    for number in range(count):
        (directory / f"file-{number * 7919 % 1_000_003:07}.dat").touch()


def list_page(files: FolderFiles, count: int, order: Order) -> None:
    files.list_page((str(count),), order=order, is_descending=False, after=None, limit=10_000)


def small_files() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(SMALL_FILES):
            archive.writestr(f"d{number % 50}/{number}.txt", f"{number}\n" * 200)
    return written.getvalue()


def measure(act: Callable[[], object]) -> tuple[float, float]:
    """Return seconds of the clock and of the processor: they differ on a busy machine."""
    began, busy = perf_counter(), process_time()
    act()
    return perf_counter() - began, process_time() - busy


def report_ms(what: str, act: Callable[[], object]) -> None:
    took = [measure(act) for _ in range(ROUNDS)]
    wall, busy = (1000 * median(each) for each in zip(*took, strict=True))
    print(f"{what:28}{wall:8.0f} ms, {busy:6.0f} ms of a processor")


def report_rate(what: str, amount: float, unit: str, act: Callable[[], object]) -> None:
    wall, busy = measure(act)
    print(f"{what:28}{amount / wall:8.0f} {unit}, {amount / busy:6.0f} {unit} of a processor")


if __name__ == "__main__":
    django.setup()
    main()
