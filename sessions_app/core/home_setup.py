"""Builds the archive of dotfiles and start-up script for a container, parses its progress. Pure.

The archive is unpacked into a volume of the container before it starts. The first process installs
the files as the container's user, without extra permissions: it follows no link and writes into no
mounted folder.
"""

import io
import shlex
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SETUP = "/run/berth"
BEGIN = f"{SETUP}/begin"
STATUS = "/dev/shm/.berth-setup"
MARK = "berth: start-up script:"
STATUS_LIMIT = 16 * 1024

_BEGIN = """\
status={status}
say() {{ printf '%s\\n' "$*" >>"$status"; }}
put() {{
  rest=$3 place=.
  while [ "$rest" != "${{rest#*/}}" ]; do
    place=$place/${{rest%%/*}} rest=${{rest#*/}}
    if [ -L "$place" ]; then say skipped "$1" link; return; fi
    if [ ! -d "$place" ] && ! mkdir "$place" 2>/dev/null; then say skipped "$1" refused; return; fi
  done
  if [ -L "$place/$rest" ]; then say skipped "$1" link; return; fi
  if [ -d "$place/$rest" ]; then say skipped "$1" directory; return; fi
  made=$place/.berth-$$-$1
  if (umask 077 && cat "{setup}/$1" >"$made") 2>/dev/null && chmod "$2" "$made" && mv -f "$made" "$place/$rest"
  then say written "$1"; else rm -f "$made"; say skipped "$1" refused; fi
}}
: >"$status"
if cd "$HOME"; then
{puts}
fi
say files
"""

_SCRIPT = """\
shell=sh
if command -v bash >/dev/null; then shell=bash; fi
before=$(date +%s)
timeout -k 5 {seconds} "$shell" {setup}/script </dev/null
code=$?
took=$(($(date +%s) - before))
say script $code $took
if [ "$code" -ne 0 ]; then echo "{mark} exit code $code after $took s"; fi
"""


class Skip(StrEnum):
    """Reason why a file was not written.

    FOLDER: it would lie in a mounted folder. LINK: behind or in place of a link. DIRECTORY: in
    place of a directory. REFUSED: the container's user lacks permission.
    """

    FOLDER = "folder"
    LINK = "link"
    DIRECTORY = "directory"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class HomeFile:
    path: str
    mode: str
    content: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the home setup. `skipped` holds (number of the file, reason).

    `exit_code` and `took_s` are None while the script runs.
    """

    has_files: bool = False
    skipped: tuple[tuple[int, Skip], ...] = ()
    exit_code: int | None = None
    took_s: int | None = None


def build_archive(
    files: Sequence[HomeFile], script: str | None, *, seconds: int, owner: tuple[int, int]
) -> bytes:
    """Return a tar for SETUP: `begin`, files by number, `script`; readable only by `owner`.

    `owner`: uid, gid. The script is killed after `seconds`.
    """
    puts = "\n".join(
        f"  put {number} {file.mode} {shlex.quote(file.path)}" for number, file in enumerate(files)
    )
    begin = _BEGIN.format(status=STATUS, setup=SETUP, puts=puts or "  :")
    if script is not None:
        begin += _SCRIPT.format(seconds=seconds, setup=SETUP, mark=MARK)
    contents = {str(number): file.content for number, file in enumerate(files)}
    contents |= {"begin": begin} if script is None else {"begin": begin, "script": script}
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, text in contents.items():
            content = text.encode()
            head = tarfile.TarInfo(name)
            head.size, head.mode = len(content), 0o400
            head.uid, head.gid = owner
            archive.addfile(head, io.BytesIO(content))
    return held.getvalue()


def read_progress(text: bytes) -> Progress:
    """Parse the contents of STATUS.

    The session's user can write there, so invalid lines are skipped.
    """
    skipped: list[tuple[int, Skip]] = []
    has_files, exit_code, took_s = False, None, None
    for line in text.decode(errors="replace").splitlines():
        match line.split():
            case ["skipped", number, why] if number.isdecimal() and len(number) < 4 and why in set(Skip):
                skipped.append((int(number), Skip(why)))
            case ["files"]:
                has_files = True
            case ["script", code, took] if is_small(code) and is_small(took):
                exit_code, took_s = int(code), int(took)
    return Progress(has_files, tuple(skipped), exit_code, took_s)


def read_log(log: bytes) -> tuple[int, int] | None:
    """Return (exit code, seconds) of a failed script from the container's log, or None."""
    for line in log.splitlines():
        if line.startswith(MARK.encode()):
            match line[len(MARK) :].decode(errors="replace").split():
                case ["exit", "code", code, "after", took, "s"] if is_small(code) and is_small(took):
                    return int(code), int(took)
    return None


def has_timed_out(exit_code: int, took_s: int, seconds: int) -> bool:
    """Return True if the script was ended by its time limit.

    coreutils' `timeout` exits with 124; if killed, or with another `timeout`, the exit code is the
    signal's.
    """
    return exit_code == 124 or (exit_code in (137, 143) and took_s >= seconds)


def is_small(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6
