"""Measure pages of large directories, the ZIP stream and unpacking, by the storage of this machine."""

import io
import os
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import perf_counter

from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, never_below
from vfolders.core.paths import ROOT
from vfolders.storage import trash
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import Copying, FolderFiles
from vfolders.storage.listing import Order
from vfolders.storage.trees import NameTaken

PAGE_ENTRIES = 10_000
MOST_MS = {10_000: 250, 100_000: 300}  # by entries of the directory
ZIP_BYTES = 512 * 2**20
SMALL_FILES = 5000


def bench(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory() as root:
        storage = LocalStorage(root, Owner(os.getuid(), os.getgid()))
        files = FolderFiles(storage, folder := uuid.uuid4())
        storage.create_folder(folder)
        fill(Path(storage.folder_path(folder)))
        return measure_in_turns([*pages(files), *archives(files)], options)


def fill(top: Path) -> None:
    for entries in MOST_MS:
        (top / str(entries)).mkdir()
        for number in range(entries):
            (top / str(entries) / f"file-{number * 7919 % 1_000_003:07}.dat").touch()
    (top / "big").write_bytes(os.urandom(2**20) * (ZIP_BYTES // 2**20))
    (top / "small.zip").write_bytes(small_files())


def small_files() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(SMALL_FILES):
            archive.writestr(f"d{number % 50}/{number}.txt", f"{number}\n" * 200)
    return written.getvalue()


def pages(files: FolderFiles) -> Iterator[Measure]:
    """Measure the first page in each order."""
    for entries, most_ms in MOST_MS.items():
        for order in Order:

            def page_ms(directory: str = str(entries), order: Order = order) -> float:
                return 1000 * seconds(
                    lambda: files.list_page(
                        (directory,), order=order, is_descending=False, after=None, limit=PAGE_ENTRIES
                    )
                )

            yield Measure(f"page of {entries} by {order}", "ms", page_ms, None, never_above(most_ms))


def archives(files: FolderFiles) -> Iterator[Measure]:
    def pack() -> None:
        for _piece in files.zip_stream([("big",)]):
            pass

    rounds = count()

    def unpack() -> None:
        how = Copying(NameTaken.REFUSE, trash.new_batch(), lambda amount: None, [])
        files.unpack(("small.zip",), files, ROOT, f"unpacked-{next(rounds)}", copying=how)

    yield Measure(
        "ZIP stream", "MB/s", lambda: ZIP_BYTES / 1e6 / seconds(pack), None, never_below(150), most_rounds=2
    )
    yield Measure(
        "unpacked", "files/s", lambda: SMALL_FILES / seconds(unpack), None, never_below(200), most_rounds=2
    )


def seconds(act: Callable[[], object]) -> float:
    began = perf_counter()
    act()
    return perf_counter() - began
