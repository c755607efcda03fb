"""The matrix of faults: which ones Berth must survive, how each is injected, and by which tests.

Numbers are stable: they name a fault in documents and reports.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault. `tests` are ids relative to tests/; `elsewhere` are tests of other stages, which
    keep no results here. `left_out` says what of it is not injected, and why.
    """

    number: int
    title: str
    injected: str
    must_hold: str
    tests: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    left_out: str = ""


def _in(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{name}" for name in names)


CONTROL = "faults/test_control_plane.py"
ENGINES = "faults/test_engines.py"
WORKERS = "faults/test_killed_workers.py"
MESSAGES = "faults/test_messages.py"
REQUESTS = "faults/test_requests.py"
MACHINES = "cluster/test_machines.py"
CHAOS = "faults/test_chaos.py::test_nothing_is_over_allocated_exceeded_lost_doubled_or_stuck"
HOSTILE = "docker/test_hostile_session.py"

MATRIX = (
    FaultKind(
        1,
        "Web process killed during login, launch or upload",
        "SIGKILL while requests are under way",
        "every answered request is done, once; a retry is safe; half a file is never seen",
        _in(CONTROL, "web_killed_during_requests", "web_killed_during_an_upload"),
    ),
    FaultKind(
        2,
        "Worker killed between a commit and the engine's answer, and after it",
        "SIGKILL at every point that a launch, an end or a tick passes; answers of the engine cut off",
        "one container per attempt; nothing is lost or stays",
        (
            *_in(WORKERS, "worker_killed_at_every_step", "tick_worker_killed_at_every_step"),
            *_in(ENGINES, "answers_of_the_engine_lost"),
        ),
    ),
    FaultKind(
        3,
        "Two schedulers at once; a paused one that goes on",
        "second processes of each kind; SIGSTOP in the middle of a tick, a second scheduler, SIGCONT",
        "no machine is over-allocated; each session is placed once",
        _in(WORKERS, "two_of_each_worker_and_two_beats", "paused_scheduler_that_goes_on"),
        left_out="That others schedule while one is paused: its locks belong to its connection, which is open.",
    ),
    FaultKind(
        4,
        "Engine killed and started with sessions live",
        "SIGKILL for dockerd, with live-restore",
        "containers run on and are adopted; open apps notice nothing",
        (*_in(ENGINES, "engine_killed_during_launches"), *_in(MACHINES, "engine_killed_and_started")),
    ),
    FaultKind(
        5,
        "Engine restarted, or hung",
        "restart with and without live-restore; SIGSTOP for dockerd",
        "ends have a cause; a hung engine delays nobody else",
        (
            *_in(
                ENGINES,
                "engine_hung_during_launches",
                "engine_restarted_without_live_restore",
                "one_hung_engine_does_not_delay_another",
            ),
            *_in(MACHINES, "engine_hangs_for_longer_than_the_grace"),
        ),
    ),
    FaultKind(
        6,
        "Machine cut off, both ways, one way, flapping; without power",
        "network cable down; packets dropped in one direction; seven seconds down and up; everything killed",
        "lost within 20 s, sessions decided within the grace, connected within 10 s after it healed; never two of "
        "one attempt",
        _in(
            MACHINES,
            "machine_loses_power",
            "machine_is_cut_off",
            "machine_is_cut_off_for_less_than_the_grace",
            "cable_flaps",
        ),
    ),
    FaultKind(
        7,
        "Slow or lossy link",
        "token bucket of 256 kbit/s and 15 % of packets dropped; every call half a second longer",
        "no machine is lost for it; work is done",
        (*_in(MACHINES, "slow_and_lossy_link"), *_in(ENGINES, "engine_that_answers_slowly")),
        left_out="Delay of single packets (netem), which this kernel lacks.",
    ),
    FaultKind(
        8,
        "Machine gone for ever, another one at its address; one machine twice",
        "a new engine with an empty disk and the old address and certificates; a second registration",
        "known by its engine, not by its address",
        _in(MACHINES, "another_machine_at_the_address", "same_engine_registered_twice"),
    ),
    FaultKind(
        9,
        "Machine that comes back with containers that Berth gave up",
        "cut off for longer than the grace",
        "they are stopped and removed, and the machine is used again",
        _in(MACHINES, "machine_is_cut_off", "engine_hangs_for_longer_than_the_grace"),
    ),
    FaultKind(
        10,
        "Whole portal away with live sessions",
        "SIGKILL for everything during launches; stop, and start after sessions have ended",
        "no session is lost, and each end is found with its cause",
        (
            *_in(CONTROL, "everything_killed_during_ten_launches"),
            "cluster/test_control_plane.py::test_portal_away_while_sessions_run_and_end",
        ),
        left_out="Upgrades from a release, of which there is none yet.",
    ),
    FaultKind(
        11,
        "PostgreSQL killed, stalled, out of connections",
        "SIGKILL; SIGSTOP; all connections taken by others",
        "503 with a sentence; no half states; open apps go on",
        _in(
            CONTROL,
            "postgresql_killed_during_launches",
            "postgresql_stalled_during_launches",
            "postgresql_out_of_connections",
        ),
        left_out="Fail-over to a replica.",
    ),
    FaultKind(
        12,
        "PostgreSQL restored from an older backup",
        "its files copied back while later sessions run",
        "older sessions are as their containers are; unknown containers are reported and left to the administrator",
        _in(CONTROL, "postgresql_restored_from_a_backup"),
    ),
    FaultKind(
        13,
        "Redis flushed, killed, hung, out of memory",
        "FLUSHALL; SIGKILL; SIGSTOP; a limit of 1 MiB below what it holds",
        "nothing durable lives there",
        _in(
            CONTROL,
            "redis_flushed_during_launches",
            "redis_killed_during_launches",
            "redis_hung",
            "redis_out_of_memory",
        ),
    ),
    FaultKind(
        14,
        "Messages twice and in the wrong order",
        "each message of launches and ends sent again, before and after its time",
        "one container per attempt; states never go backwards",
        _in(MESSAGES, "messages_twice_and_out_of_order"),
    ),
    FaultKind(
        15,
        "Disk full",
        "the disk of an engine, to the last byte, locally and on a remote machine",
        "clean refusal with a reason; all goes on once there is space",
        (*_in(ENGINES, "disk_full"), *_in(MACHINES, "disk_of_a_machine_is_full")),
        left_out="Disks of folders, PostgreSQL and logs.",
    ),
    FaultKind(
        17,
        "Clock jumps",
        "libfaketime: the portal and its databases three hours ahead and one behind, the engine not",
        "no deadline passes for it; the beat goes on",
        _in("faults/test_clock.py", "clock_set_ahead_and_back_during_launches"),
        left_out="Clocks of engines: programs in Go do not ask the C library for the time.",
    ),
    FaultKind(
        18,
        "Image missing, or its registry of no use",
        "image removed from the machine",
        "a reason of its own",
        _in(ENGINES, "image_missing"),
        left_out="Registries that are down, slow or refuse, in this stage.",
    ),
    FaultKind(
        20,
        "Fork bomb and other floods of a session",
        "from inside a container",
        "limits hold, and the machine stays ready",
        elsewhere=(HOSTILE,),
    ),
    FaultKind(
        21,
        "Container that ignores SIGTERM, or cannot be removed",
        "programs without a handler; an engine that refuses to stop, kill and remove",
        "ends in bounded time; resources are free only when it is gone",
        _in(ENGINES, "container_that_cannot_be_killed"),
        elsewhere=("docker/test_stopping.py",),
    ),
    FaultKind(
        23,
        "Very many launches and stops at once",
        "random requests in arrays of hundreds on simulated machines, by processes that are killed",
        "nothing is over-allocated, exceeded, lost, doubled or stuck",
        (CHAOS,),
        left_out="Two hundred launches at once on real engines.",
    ),
    FaultKind(
        24,
        "Hundreds of connections come back at once",
        "SIGKILL for the web process while they are open",
        "all are back, and pages answer meanwhile",
        _in(REQUESTS, "connections_that_all_come_back_at_once"),
    ),
    FaultKind(
        25,
        "Proxy of apps killed",
        "SIGKILL for the web process, which is the proxy, with an app open",
        "the app opens again; what runs in the session is untouched",
        _in(REQUESTS, "proxy_of_apps_killed"),
    ),
    FaultKind(
        26,
        "Account closed, project archived or limit lowered during a launch",
        "changed over REST while a launch is held between two steps; limits at random, with fault 23",
        "decided one way, and explained",
        (*_in(REQUESTS, "owner_shut_out_during_a_launch"), CHAOS),
    ),
    FaultKind(
        27,
        "The same request many times at once",
        "eight connections with one Idempotency-Key",
        "one session",
        _in(REQUESTS, "same_request_eight_times_at_once"),
    ),
    FaultKind(
        29,
        "Flood of a session's log",
        "a program that writes as fast as it can, from inside a container",
        "bounded disk and memory",
        elsewhere=(HOSTILE, "docker/test_logs.py"),
    ),
    FaultKind(
        31,
        "Reboot of a whole machine during ten launches",
        "everything on a machine and the whole portal killed in the middle; both started",
        "each session runs once or has ended with a cause",
        _in(MACHINES, "machine_loses_power_during_ten_launches"),
    ),
    FaultKind(
        33,
        "Container removed by hand",
        "docker rm -f on the machine",
        "noticed within seconds, with that cause",
        _in(ENGINES, "container_removed_by_hand"),
    ),
    FaultKind(
        34,
        "One of several portals of an installation killed",
        "SIGKILL for everything of a web host and of a worker host, then for those of the first",
        "the others go on; one beat at a time",
        _in("faults/test_many_portals.py", "one_of_two_of_each_is_killed"),
    ),
)
