"""Sends periodic Celery tasks by name until SIGTERM: `python -m portal.processes.periodic`.

Of several such processes, on any machines, one sends; the others take over when it ends or is cut
off. It uses the monotonic clock: a change of the system time neither delays nor repeats tasks. It
only knows task names and does not set up Django, which halves its memory.
"""

import heapq
import signal
import time
from collections.abc import Callable
from threading import Event

import structlog
from celery import Celery

from common.messaging.dispatch import QUEUES, TaskName
from portal.processes.beat_lock import BeatLock
from portal.settings import DATABASE_URL

log = structlog.get_logger(__name__)

# Seconds between runs. Events start the same work earlier; these alone are correct, but slower.
PERIODS_S = {
    TaskName.TICK: 5,
    TaskName.FORGET_TICKS: 600,
    TaskName.HEARTBEAT_AGENTS: 5,
    TaskName.ADMIT_MACHINES: 5,
    TaskName.RENEW_CERTIFICATES: 3600,
    TaskName.SUPPLY_MACHINES: 30,
    TaskName.TRANSFER_IMAGES: 5,
    TaskName.REMOVE_IMAGES: 600,
    TaskName.DISCOVER_DEVICES: 10,
    TaskName.KEEP_WALLS: 30,
    TaskName.RECONCILE_SESSIONS: 2,
    TaskName.MEASURE_DEVICES: 10,
    TaskName.KEEP_METERS: 30,
    TaskName.KEEP_RELAYS: 15,
    TaskName.MEASURE_SESSIONS: 10,
    TaskName.NOTE_SETUPS: 5,
    TaskName.TELL_CALLBACKS: 5,
    TaskName.PROVE_STORAGE: 15,
    TaskName.WATCH_SHARES: 10,
    TaskName.PARTITION_DEVICES: 30,
    TaskName.KEEP_MOORINGS: 5,
    TaskName.PURGE_EXPIRED: 60,
    TaskName.PURGE_FOLDERS: 300,
    TaskName.CLONE_FOLDERS: 15,
    TaskName.MEASURE_FOLDERS: 60,
    TaskName.REMOVE_ENDED_SHARES: 600,
    TaskName.CHECK_STORAGE_HOSTS: 60,
    TaskName.COUNT_DIRECTORIES: 60,
    TaskName.SAMPLE_SIZES: 3600,
    TaskName.RUN_FILE_OPERATIONS: 20,
    TaskName.SETTLE_UPLOADS: 900,
    TaskName.PURGE_SIGN_INS: 3600,
    TaskName.CONTINUE_OFFBOARDINGS: 5,
    TaskName.CONTINUE_IMPORTS: 10,
    TaskName.FOLLOW_RULES: 60,
    TaskName.PURGE_ANSWERS: 3600,
    TaskName.PURGE_AUDIT: 24 * 3600,
    TaskName.NOTIFY_PEOPLE: 60,
    TaskName.NOTIFY_OF_BUDGETS: 300,
    TaskName.NOTIFY_OF_STORAGE: 300,
    TaskName.MAIL_NOTIFICATIONS: 60,
}
EXPIRES_PERIODS = 2
STANDBY_S = 1.0

app = Celery("berth")
app.config_from_object("portal.settings", namespace="CELERY")


def main() -> None:
    is_over = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    lock = BeatLock(DATABASE_URL)
    try:
        run(send, is_over, lock.is_held)
    finally:
        lock.close()


def run(
    send: Callable[[TaskName], None], is_over: Event, may_send: Callable[[], bool] = lambda: True
) -> None:
    """Call `send` for each task immediately and then every period, while `may_send` is true, until
    `is_over`. Missed calls (the machine slept, another process was to send) are replaced by one.
    """
    due: list[tuple[float, TaskName]] = []
    while not is_over.is_set():
        if not may_send():
            due = []
            is_over.wait(STANDBY_S)
            continue
        due = due or [(time.monotonic(), name) for name in sorted(PERIODS_S)]
        at, name = due[0]
        if is_over.wait(max(0.0, at - time.monotonic())):
            return
        send(name)
        heapq.heapreplace(due, (max(at + PERIODS_S[name], time.monotonic()), name))


def send(name: TaskName) -> None:
    """Send the task to a worker. If the broker does not accept it, the next period retries."""
    try:
        # Expired tasks are replaced by later ones, so that they do not pile up.
        expires_s = EXPIRES_PERIODS * PERIODS_S[name]
        app.send_task(name.value, queue=QUEUES[name], expires=expires_s, retry=False)
    except Exception as error:  # noqa: BLE001 -- whatever the broker's library raises, the clock goes on
        log.warning("beat.lost", task=name.value, error=str(error))


if __name__ == "__main__":
    main()
