"""Celery tasks of sessions. Each re-reads, decides, and may run twice, late or never."""

from contextlib import suppress
from uuid import UUID

from celery import shared_task

from agents.machines.helper_containers import reap_helpers
from agents.metering import meter_containers
from agents.runtime.port import RuntimeFault
from agents.selectors import connected_agents, runtime_of
from common import clock
from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName
from common.resilience.fault_points import during
from sessions_app.callbacks import delivery as callbacks_delivery
from sessions_app.dotfiles import delivery as dotfiles_delivery
from sessions_app.launch import device_share_monitor, launcher, network_pool, terminator
from sessions_app.metrics import collector
from sessions_app.models import AppGrant, AppLogin
from sessions_app.queue import array_release, dependents
from sessions_app.queue.mig_on_demand import partition_on_demand
from sessions_app.reconciler import garbage, loop
from sessions_app.storage_reach import service as storage_reach


@shared_task(name=TaskName.LAUNCH_SESSION, soft_time_limit=3500, time_limit=3600)
def launch_session(session_id: str) -> None:
    with during("launch"):
        launcher.launch_session(UUID(session_id))


@shared_task(name=TaskName.TERMINATE_SESSION, soft_time_limit=300, time_limit=360)
def terminate_session(session_id: str) -> None:
    with during("end"):
        terminator.end_session(UUID(session_id))


@shared_task(name=TaskName.RECONCILE_SESSIONS, soft_time_limit=300, time_limit=360)
def reconcile_sessions() -> None:
    with try_exclusive("reconcile-sessions") as is_mine:
        if is_mine:
            with during("reconcile"):
                loop.reconcile_sessions()


@shared_task(name=TaskName.SETTLE_DEPENDENTS, soft_time_limit=300, time_limit=360)
def settle_dependents(session_id: str) -> None:
    dependents.settle_dependents(UUID(session_id))


@shared_task(name=TaskName.LOOK_AT_ARRAY, soft_time_limit=300, time_limit=360)
def advance_array(array_id: str) -> None:
    array_release.release_elements(UUID(array_id))
    dependents.settle_after_array(UUID(array_id))


@shared_task(name=TaskName.MEASURE_SESSIONS, soft_time_limit=60, time_limit=90)
def measure_sessions() -> None:
    with try_exclusive("measure-sessions") as is_mine:
        if is_mine:
            collector.measure_sessions()


@shared_task(name=TaskName.NOTE_SETUPS, soft_time_limit=300, time_limit=360)
def record_setups() -> None:
    with try_exclusive("note-setups") as is_mine:
        if is_mine:
            dotfiles_delivery.record_setups()


@shared_task(name=TaskName.TELL_CALLBACKS, soft_time_limit=60, time_limit=90)
def deliver_callbacks() -> None:
    callbacks_delivery.deliver_callbacks()


@shared_task(name=TaskName.WATCH_SHARES, soft_time_limit=240, time_limit=300)
def watch_shares() -> None:
    with try_exclusive("watch-shares") as is_mine:
        if is_mine:
            device_share_monitor.monitor_device_shares()
            partition_on_demand()


@shared_task(name=TaskName.PROVE_STORAGE, soft_time_limit=240, time_limit=300)
def prove_storage() -> None:
    """Prove the storage hosts that are due, unless the previous round is still running."""
    with try_exclusive("prove-storage") as is_mine:
        if is_mine:
            storage_reach.keep_proofs()


@shared_task(name=TaskName.KEEP_MOORINGS, soft_time_limit=300, time_limit=360)
def maintain_network_pool() -> None:
    network_pool.maintain_network_pool()


@shared_task(name=TaskName.PURGE_EXPIRED, soft_time_limit=300, time_limit=360)
def purge_expired() -> None:
    AppGrant.objects.filter(expires_at__lt=clock.now()).delete()
    AppLogin.objects.exclude(session__ended_at=None).delete()
    AppLogin.objects.filter(expires_at__lt=clock.now()).delete()
    for agent in connected_agents().filter(last_error=""):
        try:
            garbage.reap_leftovers(agent, runtime_of(agent))
            reap_helpers(runtime_of(agent))
            device_share_monitor.remove_left_groups(agent)
            device_share_monitor.remove_unused_daemons(agent, runtime_of(agent))
        except RuntimeFault:
            continue
    for agent in meter_containers.just_retired_agents():
        with suppress(RuntimeFault):
            device_share_monitor.remove_unused_daemons(agent, runtime_of(agent))
