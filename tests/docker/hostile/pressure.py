"""Attacks that last, and that are judged from outside: by what the neighbours and the machine feel of them."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.runtime.docker.encoding import container_config
from agents.runtime.port import ContainerStatus
from tests.docker.hostile.stage import Stage
from tests.waiting import wait_until

Verdict = tuple[str, str]
THROUGH, HELD, ABSENT = "through", "held", "absent"
FEW, MANY = 200, 2000
FORK_BOMB = "import os,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(.1)"
FLOOD = """
import os
line = b'x' * 65535 + b'\\n'
out = os.open('/proc/1/fd/1', os.O_WRONLY)
for _ in range({mib} * 16): os.write(out, line)
"""
BURN = "import os\n[os.fork() for _ in range({doublings})]\nwhile True: pass"
LOG_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Pressure:
    """`run(stage, is_walled)` tries it in a session, or in a container without the wall."""

    name: str
    tries: str
    wall: str
    run: Callable[[Stage, bool], Verdict]


def fork_bomb(stage: Stage, is_walled: bool) -> Verdict:
    """More than FEW processes where FEW are allowed; the neighbour can start a program all the while."""
    bomber = stage.start_session(pids_limit=FEW if is_walled else MANY)
    stage.runtime.start_process(bomber, ["python3", "-c", FORK_BOMB])
    enough = FEW if is_walled else FEW + 1
    wait_until(lambda: processes_of(stage, bomber) >= enough, deadline_s=60, interval_s=0.2)
    assert stage.runtime.run_process(stage.neighbour, ["true"], timeout_s=60).exit_code == 0
    count = processes_of(stage, bomber)
    stage.runtime.remove_container(bomber)
    return THROUGH if count > FEW else HELD, f"{count} processes"


def processes_of(stage: Stage, name: str) -> int:
    return int(stats_of(stage, name)["pids_stats"].get("current", 0))


def stats_of(stage: Stage, name: str) -> dict[str, Any]:
    return stage.client.stats(name, stream=False, one_shot=True)  # type: ignore[no-any-return]


def greedy_neighbour(stage: Stage, is_walled: bool) -> Verdict:
    """Sixteen busy programs beside one, on the same core."""
    core = str(max(os.sched_getaffinity(0)))
    greedy = stage.session_spec(cpuset=core, cpu_milli=1000)
    config = container_config(greedy)
    if not is_walled:
        config["HostConfig"] |= {"CpuShares": 262144, "CpuQuota": 0}
    stage.client.create_container_from_config(config, greedy.name)
    stage.runtime.start_container(greedy.name)
    modest = stage.start_session(cpuset=core, cpu_milli=1000)
    for name, doublings in ((greedy.name, 4), (modest, 0)):
        stage.runtime.start_process(name, ["python3", "-c", BURN.format(doublings=doublings)])
    wait_until(lambda: processor_of(stage, greedy.name) > 0.5, deadline_s=60, interval_s=0.2)
    before = [processor_of(stage, name) for name in (greedy.name, modest)]
    wait_until(lambda: processor_of(stage, greedy.name) > before[0] + 1.5, deadline_s=60, interval_s=0.2)
    after = [processor_of(stage, name) for name in (greedy.name, modest)]
    for name in (greedy.name, modest):
        stage.runtime.remove_container(name)
    taken, left = (end - start for start, end in zip(before, after, strict=True))
    share = left / (left + taken)
    return HELD if share > 0.3 else THROUGH, f"{share:.0%} of the core are left to the neighbour"


def more_than_its_share(stage: Stage, is_walled: bool) -> Verdict:
    """Four busy programs where a twentieth of a core was asked for: so little that a crowded machine gives it too."""
    spec = stage.session_spec(cpu_milli=50)
    config = container_config(spec)
    if not is_walled:
        config["HostConfig"] |= {"CpuQuota": 0, "CpuShares": 262144, "CpusetCpus": ""}
    stage.client.create_container_from_config(config, spec.name)
    stage.runtime.start_container(spec.name)
    stage.runtime.start_process(spec.name, ["python3", "-c", BURN.format(doublings=2)])

    def is_judged() -> bool:
        used, times = processor_of(stage, spec.name), times_held_back(stage, spec.name)
        return times > 0 if is_walled else used > 1

    wait_until(is_judged, deadline_s=120, interval_s=0.1)
    times = times_held_back(stage, spec.name)
    stage.runtime.remove_container(spec.name)
    return (HELD if times else THROUGH), "held back by the kernel" if times else "never held back"


def times_held_back(stage: Stage, name: str) -> int:
    return int(stats_of(stage, name)["cpu_stats"]["throttling_data"]["throttled_periods"])


def processor_of(stage: Stage, name: str) -> float:
    """Seconds of a processor that it has used."""
    return float(stats_of(stage, name)["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def flood_of_logs(stage: Stage, is_walled: bool) -> Verdict:
    """1 GiB of output; without the wall, a sixteenth of that is enough to see."""
    spec = stage.session_spec(cpu_milli=1000)
    config = container_config(spec)
    if not is_walled:
        config["HostConfig"]["LogConfig"] = {"Type": "json-file", "Config": {}}
    stage.client.create_container_from_config(config, spec.name)
    stage.runtime.start_container(spec.name)
    log = Path(stage.client.inspect_container(spec.name)["LogPath"])
    if not log.exists():
        return ABSENT, "the engine is elsewhere"
    flood = FLOOD.format(mib=1024 if is_walled else 64)
    done = stage.runtime.run_process(spec.name, ["python3", "-c", flood], timeout_s=300)
    assert done.exit_code == 0, done.output
    size = sum(file.stat().st_size for file in log.parent.glob(f"{log.name}*"))
    stage.runtime.remove_container(spec.name)
    return THROUGH if size > LOG_BYTES + 2**20 else HELD, f"{size / 2**20:.0f} MiB on the disk"


def deaf_program(stage: Stage, is_walled: bool) -> Verdict:
    """A program that ignores SIGTERM is stopped all the same."""
    command = ("sh", "-c", "trap '' TERM; echo ready; while true; do sleep 1; done")
    deaf = stage.start_session(command=command)
    wait_until(lambda: b"ready" in stage.runtime.read_logs(deaf), deadline_s=60)
    if is_walled:
        stage.runtime.stop_container(deaf, 1)
    else:
        stage.client.kill(deaf, signal.SIGTERM.value)
        stage.runtime.run_process(deaf, ["sleep", "2"])
    state = stage.runtime.inspect_container(deaf)
    assert state is not None
    stage.runtime.remove_container(deaf)
    return (THROUGH if state.status is ContainerStatus.RUNNING else HELD), state.status.value


def app_server_is_spared(stage: Stage, is_walled: bool) -> Verdict:
    """A program takes all memory in pieces, each smaller than the app server, which is the largest."""
    session = stage.start_session()
    server = (
        f"import time; held = bytearray(b'x' * 4096) * {150 * 256}; open('/tmp/server', 'w'); time.sleep(600)"
    )
    piece = f"held = bytearray(b'x' * 4096) * {60 * 256}"
    eater = (
        f"import os, time\nfor _ in range(10): os.fork() or ([{piece[7:]}, time.sleep(600)])\ntime.sleep(600)"
    )
    starter = ["berth-program"] if is_walled else []
    stage.runtime.start_process(session, ["python3", "-c", server])
    wait_until(
        lambda: stage.runtime.run_process(session, ["test", "-e", "/tmp/server"]).exit_code == 0,
        deadline_s=60,
    )
    stage.runtime.start_process(session, [*starter, "python3", "-c", eater])
    wait_until(lambda: kills_in(stage, session) > 0, deadline_s=60, interval_s=0.3)
    alive = stage.runtime.run_process(session, ["pgrep", "-f", "/tmp/server"]).exit_code == 0
    stage.runtime.remove_container(session)
    return (HELD, "the app server lives") if alive else (THROUGH, "the app server was killed")


def kills_in(stage: Stage, session: str) -> int:
    """How many programs the kernel has ended in the session for want of memory."""
    script = "cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null | grep 'oom_kill '"
    said = stage.runtime.run_process(session, ["sh", "-c", script]).output.split()
    return int(said[1]) if len(said) > 1 else 0


PRESSURES = (
    Pressure("fork-bomb", "A fork bomb", "limit of processes", fork_bomb),
    Pressure("processor", "Four busy programs on a twentieth of a core", "quota of the processor", more_than_its_share),
    Pressure("greedy", "Sixteen busy programs on the core of a neighbour", "weights and quota of processors", greedy_neighbour),
    Pressure("logs", "1 GiB of output", "logs of at most 16 MiB", flood_of_logs),
    Pressure("deaf", "Ignore the signal to stop", "killed after a grace", deaf_program),
    Pressure("app-server", "Take all memory, so that the app server is ended for it", "order in which programs end", app_server_is_spared),
)  # fmt: skip
