"""Delivers dotfiles and the start-up script into a session's containers, and records the result.

A container gets them before it starts and installs them by itself (`core/home_setup.py`). So a
worker that dies leaves nothing unfinished, and a script that hangs delays only its own session. No
failure here ends a session.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from functools import partial

import structlog
from django.conf import settings
from django.core.cache import cache
from django.utils.translation import gettext as _

from agents.runtime.port import ContainerRuntime, ProcessTimeout, RuntimeFault, RuntimeUnavailable
from agents.selectors import runtime_of
from common import clock
from common.i18n import gettext_noop
from common.resilience.keyed_pool import KeyedPool
from sessions_app.core.container_spec import HOME
from sessions_app.core.dotfile_rules import is_within
from sessions_app.core.home_setup import (
    SETUP,
    STATUS,
    STATUS_LIMIT,
    HomeFile,
    Progress,
    Skip,
    build_archive,
    has_timed_out,
    read_log,
    read_progress,
)
from sessions_app.core.states import Reason
from sessions_app.dotfiles.service import active_files
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession, Kernel, PersonalSetup

log = structlog.get_logger(__name__)

Script = PersonalSetup.Script
Answer = Progress | RuntimeFault | None
FILES_WAIT_S = 10
READ_S = 5
GRACE_S = 60
BATCH_SIZE = 100
PARALLEL_READS = 16
SILENCE_S = 60
LANES = 4
THREADS = 32
ROUND_S = 10
# A pipe in its place would block the reader, and a link could lead elsewhere.
_READ_COMMAND = f"[ -f {STATUS} ] && [ ! -L {STATUS} ] && head -c {STATUS_LIMIT} {STATUS} 2>/dev/null"
_AWAIT_COMMAND = (
    f'n=0; until case "$({_READ_COMMAND})" in *files*) true;; *) false;; esac || [ $n -ge {FILES_WAIT_S * 5} ]; '
    f"do sleep 0.2; n=$((n + 1)); done; {_READ_COMMAND}"
)
_pool = KeyedPool[list[tuple[Kernel, Answer]]]("setups", THREADS)
SKIPPED_SENTENCES = {
    Skip.FOLDER: gettext_noop("“{path}” was not written: it would lie in a folder of this session."),
    Skip.LINK: gettext_noop("“{path}” was not written: there is a link on the way."),
    Skip.DIRECTORY: gettext_noop("“{path}” was not written: there is a directory."),
    Skip.REFUSED: gettext_noop("“{path}” was not written: the image does not let you."),
}
SCRIPT_SENTENCES = {
    Script.RUNNING: gettext_noop("Your start-up script is running."),
    Script.DONE: gettext_noop("Your start-up script ran for {took} s."),
    Script.FAILED: gettext_noop(
        "Your start-up script failed with exit code {exit_code} after {took} s. The log has its output."
    ),
    Script.TIMED_OUT: gettext_noop(
        "Your start-up script was stopped after {took} s. The log has its output."
    ),
    Script.UNKNOWN: gettext_noop("What came of your start-up script is not known. The log has its output."),
}


def find_setup(session: ComputeSession) -> PersonalSetup | None:
    """Return the setup record of the session, or None. No query if the session came `with_parts`."""
    return getattr(session, "setup", None)


def prepare_setup(session: ComputeSession) -> tuple[list[HomeFile], bytes] | None:
    """Return the owner's dotfiles and the archive for the containers; None if there are none.

    Files that would lie in a mounted folder are left out, because other users may see the folder.
    At most 4 queries.
    """
    if not session.personal_files:
        return None
    kept, script = active_files(session.owner_id)
    if not kept and script is None:
        return None
    mounts = [mount.path for mount in session.mounts.all()]
    outside = [file for file in kept if is_within(file.path, mounts, HOME)]
    files = [HomeFile(file.path, file.mode, file.content) for file in kept if file not in outside]
    PersonalSetup.objects.get_or_create(
        session=session,
        defaults={
            "script": Script.NONE if script is None else Script.RUNNING,
            "files": len(kept),
            "skipped": [{"path": file.path, "why": Skip.FOLDER.value} for file in outside],
        },
    )
    owner = settings.BERTH_CONTAINER_UID, settings.BERTH_CONTAINER_GID
    return files, build_archive(files, script, seconds=settings.BERTH_STARTUP_SCRIPT_S, owner=owner)


def deliver_setup(kernel: Kernel, runtime: ContainerRuntime, archive: bytes) -> bool:
    """Unpack the archive in a container that has not started; return False if the engine refuses.

    Raises RuntimeUnavailable.
    """
    try:
        runtime.put_archive(kernel.container_name, SETUP, archive)
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("setup.not_delivered", container=kernel.container_name, error=str(error))
        return False
    return True


def await_files(session: ComputeSession, kernels: Sequence[Kernel], files: list[HomeFile]) -> None:
    """Wait until the files are installed in all these containers, because apps read them at start.

    Waits at most FILES_WAIT_S, and READ_S more for a container that does not answer. Raises
    RuntimeUnavailable.
    """
    setup = PersonalSetup.objects.filter(session=session, is_over=False).first()
    if setup is None:
        return
    for kernel, answer in _read_all(kernels, _AWAIT_COMMAND, timeout_s=FILES_WAIT_S + READ_S):
        if isinstance(answer, RuntimeUnavailable):
            raise answer
        if isinstance(answer, Progress):
            _add_skipped(setup, answer, files)
            if kernel == kernels[0]:
                _copy_script_result(setup, answer)
            setup.save()


def record_setups() -> None:
    """Record the progress of unfinished setups: at most BATCH_SIZE per call, in random order.

    One short engine call each. Containers that time out are skipped for SILENCE_S.
    """
    under_way = PersonalSetup.objects.filter(is_over=False).select_related("session").order_by("?")
    setups: dict[Kernel, PersonalSetup] = {}
    for setup in under_way.prefetch_related("session__kernels__agent")[:BATCH_SIZE]:
        kernel = setup.session.kernels.all()[0]
        if setup.session.is_running and kernel.agent is not None:
            setups[kernel] = setup
        if _is_overdue(setup):
            _finish(setup, Script.UNKNOWN)
    silent = cache.get_many([_silence_key(setup) for setup in setups.values()])
    pending = [kernel for kernel, setup in setups.items() if _silence_key(setup) not in silent]
    for kernel, answer in _read_machines(pending):
        if isinstance(answer, ProcessTimeout):
            cache.set(_silence_key(setups[kernel]), True, SILENCE_S)
        elif isinstance(answer, Progress):
            _record_progress(setups[kernel], answer)


def record_setup_at_end(session: ComputeSession, output: bytes) -> None:
    """Record the result of the setup from the log of a container that has ended.

    If the command ran, the script had finished before it.
    """
    setup = PersonalSetup.objects.filter(session=session, is_over=False).first()
    if setup is None:
        return
    failed = read_log(output)
    if failed is not None:
        setup.exit_code, setup.took_s = failed
        _finish(setup, _state_of(*failed))
        return
    has_run = session.outcome_reason in (Reason.COMMAND_FINISHED, Reason.COMMAND_FAILED)
    is_done = setup.script == Script.NONE or has_run
    _finish(
        setup,
        Script(setup.script) if setup.script == Script.NONE else Script.DONE if is_done else Script.UNKNOWN,
    )


def failure_sentences(setup: PersonalSetup) -> list[str]:
    """Return sentences about files and scripts that failed."""
    found = skipped_sentences(setup)
    if setup.script in (Script.FAILED, Script.TIMED_OUT, Script.UNKNOWN):
        found.append(script_sentence(setup))
    return found


def skipped_sentences(setup: PersonalSetup) -> list[str]:
    """Return sentences about files that were not written."""
    return [
        _(SKIPPED_SENTENCES[Skip(each["why"])]).format(path=each["path"])
        for each in setup.skipped
        if each["why"] in set(Skip)
    ]


def script_sentence(setup: PersonalSetup) -> str:
    """Return a sentence about the result of the script; "" if there was none."""
    text = SCRIPT_SENTENCES.get(Script(setup.script))
    return _(text).format(exit_code=setup.exit_code, took=setup.took_s) if text else ""


def _record_progress(setup: PersonalSetup, progress: Progress) -> None:
    _copy_script_result(setup, progress)
    if setup.is_over:
        setup.save()
        updates.push_session_change(setup.session)


def _silence_key(setup: PersonalSetup) -> str:
    """Return the cache key that marks a container that did not answer."""
    return f"silent_setup:{setup.pk}"


def _read_all(kernels: Sequence[Kernel], line: str, *, timeout_s: float) -> Iterator[tuple[Kernel, Answer]]:
    """Run the shell line in these containers of one session, PARALLEL_READS in parallel.

    Yields results as they arrive, so that a slow container delays no other.
    """
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="setups") as pool:
        pending = {pool.submit(_read_progress, kernel, line, timeout_s): kernel for kernel in kernels}
        for answer in as_completed(pending):
            yield pending[answer], answer.result()


def _read_machines(kernels: Iterable[Kernel]) -> Iterator[tuple[Kernel, Answer]]:
    """Read the progress of the containers of any sessions, LANES of a machine in parallel. A machine that
    hangs delays no other.
    """
    lanes: defaultdict[tuple[int | None, int], list[Kernel]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        lanes[kernel.agent_id, number % LANES].append(kernel)
    work = {key: partial(_read_lane, own) for key, own in lanes.items()}
    for _key, found in _pool.results(work, timeout_s=ROUND_S):
        yield from found


def _read_lane(kernels: Iterable[Kernel]) -> list[tuple[Kernel, Answer]]:
    found = []
    for kernel in kernels:
        found.append((kernel, _read_progress(kernel, _READ_COMMAND, READ_S)))
        if isinstance(found[-1][1], RuntimeUnavailable | ProcessTimeout):
            break  # the others have their turn in another round
    return found


def _read_progress(kernel: Kernel, line: str, timeout_s: float) -> Progress | RuntimeFault | None:
    """Return the parsed progress, or the fault of the engine call. No query."""
    try:
        answer = runtime_of(kernel.placed_agent).run_process(
            kernel.container_name, ("sh", "-c", line), timeout_s=timeout_s, output_limit=STATUS_LIMIT
        )
    except RuntimeFault as fault:
        log.warning("setup.not_read", container=kernel.container_name, error=str(fault))
        return fault
    return read_progress(answer.output)


def _add_skipped(setup: PersonalSetup, progress: Progress, files: list[HomeFile]) -> None:
    """Add the files that were not written to `setup`, unsaved."""
    known = {each["path"] for each in setup.skipped}
    news = [(files[number].path, why) for number, why in progress.skipped if number < len(files)]
    setup.skipped += [{"path": path, "why": why.value} for path, why in news if path not in known]


def _copy_script_result(setup: PersonalSetup, progress: Progress) -> None:
    """Copy the result of the script to `setup`, unsaved."""
    if setup.script == Script.NONE:
        _set_end(setup, Script.NONE)
    elif progress.exit_code is not None and progress.took_s is not None:
        setup.exit_code, setup.took_s = progress.exit_code, progress.took_s
        _set_end(setup, _state_of(progress.exit_code, progress.took_s))


def _state_of(exit_code: int, took_s: int) -> Script:
    if exit_code == 0:
        return Script.DONE
    is_late = has_timed_out(exit_code, took_s, settings.BERTH_STARTUP_SCRIPT_S)
    return Script.TIMED_OUT if is_late else Script.FAILED


def _is_overdue(setup: PersonalSetup) -> bool:
    """Return True if no result can arrive: the session has ended, or the script's time is over."""
    since = setup.session.started_at or clock.now()
    longest = timedelta(seconds=settings.BERTH_STARTUP_SCRIPT_S + GRACE_S)
    return not setup.session.is_live or clock.now() - since > longest


def _finish(setup: PersonalSetup, script: PersonalSetup.Script) -> None:
    _set_end(setup, script)
    setup.save()


def _set_end(setup: PersonalSetup, script: PersonalSetup.Script) -> None:
    setup.script, setup.is_over, setup.ended_at = script, True, clock.now()
