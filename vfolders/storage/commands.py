"""Runs programs of storage hosts: as lists of words, without a shell, with a time-out."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import IO

import structlog
from django.utils.translation import gettext as _

from common.values.stored_message import one_line
from vfolders.storage.base import StorageUnavailable

log = structlog.get_logger(__name__)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT_S = 60.0
SHOWN = 300
MOST_BYTES = 2**20


class Commands:
    """Programs of this machine. They get no secret of the portal's environment."""

    def run(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        good_codes: Container[int] = (0,),
    ) -> str:
        """Run the program and return its output, at most MOST_BYTES. Raises StorageUnavailable with
        what it said if it fails, is missing or takes too long. Passwords belong into `environment`
        or a file, never into `words`, which other users of the machine can read.
        """
        program = os.path.basename(words[0])
        # A file, because a file system that goes on in the background would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            code = self._run(words, output, environment or {}, timeout_s)
            output.seek(0)
            said = output.read(MOST_BYTES).decode(errors="replace")
        if code not in good_codes:
            for secret in (environment or {}).values():
                said = said.replace(secret, "…") if secret else said
            log.warning("storage.command_failed", program=program, code=code, said=said[-SHOWN:])
            raise CommandFailed(
                _("{program} failed: {error}").format(program=program, error=one_line(said)[-SHOWN:] or code)
            )
        return said

    def _run(
        self, words: Sequence[str], output: IO[bytes], environment: Mapping[str, str], timeout_s: float
    ) -> int:
        program = os.path.basename(words[0])
        try:
            return subprocess.run(
                list(words),
                env={"PATH": PATH, "LC_ALL": "C", **environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            ).returncode
        except FileNotFoundError as error:
            raise StorageUnavailable(self.lacking([program])[0]) from error
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(
                _("{program} took longer than {seconds} s.").format(program=program, seconds=int(timeout_s))
            ) from error

    def lacking(self, programs: Iterable[str]) -> tuple[str, ...]:
        """Return a sentence for each program that this machine lacks."""
        return tuple(
            _("The machine lacks the program {program} (Debian package {package}).").format(
                program=program, package=_PACKAGES.get(program, program)
            )
            for program in programs
            if not self.has(program)
        )

    def has(self, program: str) -> bool:
        return shutil.which(program, path=PATH) is not None


class CommandFailed(StorageUnavailable):
    """A program that works on the storage host failed."""

    default_code = "storage_command_failed"


_PACKAGES = {
    "btrfs": "btrfs-progs",
    "mkfs.btrfs": "btrfs-progs",
    "ceph-fuse": "ceph-fuse",
    "chattr": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "gluster": "glusterfs-cli",
    "hadoop-fuse-dfs": "bigtop hadoop-hdfs-fuse",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mount.cifs": "cifs-utils",
    "mount.glusterfs": "glusterfs-client",
    "mount.nfs": "nfs-common",
    "resize2fs": "e2fsprogs",
    "setquota": "quota",
}
