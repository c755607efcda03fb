"""Starts Celery tasks by name, after commit. Tasks may run twice, late or never."""

from enum import StrEnum

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import InconsistencyError, OperationalError

from common.messaging.redis import check_redis
from common.resilience.circuit_breaker import Outage
from common.resilience.fault_points import pause

log = structlog.get_logger(__name__)


class TaskName(StrEnum):
    """Every Celery task of Berth. A test asserts that each is registered, and none missing."""

    TICK = "scheduler.tick"
    FORGET_TICKS = "scheduler.forget_old_ticks"
    HEARTBEAT_AGENTS = "agents.heartbeat_agents"
    SUPPLY_MACHINES = "agents.supply_machines"
    TRANSFER_IMAGES = "agents.transfer_images"
    REMOVE_IMAGES = "agents.remove_images"
    DISCOVER_DEVICES = "agents.discover_devices"
    KEEP_WALLS = "agents.keep_walls"
    MEASURE_DEVICES = "agents.measure_devices"
    KEEP_METERS = "agents.keep_meters"
    KEEP_RELAYS = "agents.keep_relays"
    ADMIT_MACHINES = "agents.admit_machines"
    RENEW_CERTIFICATES = "agents.renew_certificates"
    LAUNCH_SESSION = "sessions_app.launch_session"
    TERMINATE_SESSION = "sessions_app.terminate_session"
    RECONCILE_SESSIONS = "sessions_app.reconcile_sessions"
    SETTLE_DEPENDENTS = "sessions_app.settle_dependents"
    LOOK_AT_ARRAY = "sessions_app.look_at_array"
    MEASURE_SESSIONS = "sessions_app.measure_sessions"
    NOTE_SETUPS = "sessions_app.note_setups"
    TELL_CALLBACKS = "sessions_app.tell_callbacks"
    PROVE_STORAGE = "sessions_app.prove_storage"
    WATCH_SHARES = "sessions_app.watch_shares"
    PARTITION_DEVICES = "agents.partition_devices"
    KEEP_MOORINGS = "sessions_app.keep_moorings"
    PURGE_EXPIRED = "sessions_app.purge_expired"
    PURGE_FOLDERS = "vfolders.purge_folders"
    CLONE_FOLDERS = "vfolders.clone_folders"
    MEASURE_FOLDERS = "vfolders.measure_folders"
    REMOVE_ENDED_SHARES = "vfolders.remove_ended_shares"
    CHECK_STORAGE_HOSTS = "vfolders.check_storage_hosts"
    COUNT_DIRECTORIES = "vfolders.count_directories"
    SAMPLE_SIZES = "vfolders.sample_sizes"
    RUN_FILE_OPERATIONS = "vfolders.run_file_operations"
    SETTLE_UPLOADS = "vfolders.settle_uploads"
    PURGE_SIGN_INS = "accounts.purge_sign_ins"
    CONTINUE_OFFBOARDINGS = "accounts.continue_offboardings"
    CONTINUE_IMPORTS = "accounts.continue_imports"
    FOLLOW_RULES = "accounts.follow_rules"
    PURGE_ANSWERS = "common.purge_answers"
    PURGE_AUDIT = "common.purge_audit"
    NOTIFY_PEOPLE = "portal.notify_people"
    NOTIFY_OF_BUDGETS = "portal.notify_of_budgets"
    NOTIFY_OF_STORAGE = "portal.notify_of_storage"
    MAIL_NOTIFICATIONS = "portal.mail_notifications"


QUEUES = dict.fromkeys(TaskName, "maintenance") | {
    TaskName.TICK: "tick",
    TaskName.LAUNCH_SESSION: "launch",
    TaskName.TERMINATE_SESSION: "ends",
    TaskName.HEARTBEAT_AGENTS: "default",
    TaskName.ADMIT_MACHINES: "default",
    TaskName.RECONCILE_SESSIONS: "default",
    TaskName.SETTLE_DEPENDENTS: "default",
    TaskName.LOOK_AT_ARRAY: "default",
    TaskName.MEASURE_DEVICES: "metrics",
    TaskName.MEASURE_SESSIONS: "metrics",
}


def enqueue_on_commit(
    name: TaskName, *, countdown_s: float = 0.0, **arguments: str | int | list[str]
) -> None:
    """Send task `name` when the current transaction commits, to run after `countdown_s` seconds or
    later.

    If the broker does not answer, the loss is logged; periodic tasks do the work later.
    """

    def send() -> None:
        pause(f"commit.{name}")
        try:
            check_redis()
            countdown = countdown_s or None
            current_app.send_task(name.value, kwargs=arguments, queue=QUEUES[name], countdown=countdown)
        except (OperationalError, InconsistencyError, Outage) as error:
            log.warning("dispatch.lost", task=name.value, arguments=arguments, error=str(error))

    transaction.on_commit(send)
