"""More than was asked for."""

import os
import resource
import signal
import tempfile
import threading

from inside.rows import ABSENT, FACTS, HELD, THROUGH, row


@row("fill-tmp")
def fill_tmp():
    return fill("/tmp", FACTS["mem_bytes"] // 2 + 2**24)


@row("fill-shm")
def fill_shared_memory():
    return fill("/dev/shm", FACTS["shm_bytes"] + 2**20)


def fill(directory, amount):
    block = bytes(2**20)
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(amount // len(block)):
            file.write(block)
        file.flush()
    return THROUGH, f"{amount // 2**20} MiB"


@row("threads")
def too_many_threads():
    threading.stack_size(2**16)
    gate, before = threading.Event(), threading.active_count()
    try:
        for _ in range(FACTS["pids_limit"] + 50):
            threading.Thread(target=gate.wait, daemon=True).start()
        return THROUGH, f"{threading.active_count() - before} threads"
    except RuntimeError as refused:
        return HELD, f"{refused} after {threading.active_count() - before}"
    finally:
        gate.set()


@row("memory")
def too_much_memory():
    child = os.fork()
    if child == 0:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
        taken = [bytearray(b"x" * 2**24) for _ in range(FACTS["mem_bytes"] // 2**24 + 4)]
        os._exit(0 if taken else 1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return HELD, signal.Signals(os.WTERMSIG(status)).name
    return THROUGH, f"more than {FACTS['mem_bytes'] // 2**20} MiB"


@row("other-cores")
def other_cores():
    os.sched_setaffinity(0, range(FACTS["machine_cores"]))
    got = len(os.sched_getaffinity(0))
    if FACTS["machine_cores"] < 2:
        return ABSENT, "the machine has one core"
    return THROUGH if got > 1 else HELD, f"{got} cores"


@row("open-files")
def too_many_open_files():
    null = os.open("/dev/null", os.O_RDONLY)
    kept = [os.dup(null) for _ in range(FACTS["nofile"] + 10)]
    os.closerange(min(kept), max(kept) + 1)
    return THROUGH, f"{len(kept)} files"


@row("more-open-files")
def allow_itself_more_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FACTS["nofile"] + 10, FACTS["nofile"] + 10))
    return THROUGH, "limit raised"


@row("core-dump")
def core_dump():
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    return (HELD, "limit 0") if most == 0 else (THROUGH, "core dumps of any size")
