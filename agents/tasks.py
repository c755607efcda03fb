"""Celery tasks of agents: heartbeats, network isolation and measurements of accelerators."""

from celery import shared_task

from agents.connections.invitations import admit_machines as admit_invited
from agents.connections.service import remove_old_connection_files, renew_client_certificates
from agents.machine_images import removal, runner, transfers
from agents.machines import discovery, network_isolation, service, withholding
from agents.metering import collector, meter_containers
from agents.relays import containers as relay_containers
from agents.sharing import mig_partitions
from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName
from images.selectors import built_image_ids


@shared_task(name=TaskName.HEARTBEAT_AGENTS.value, soft_time_limit=60, time_limit=90)
def heartbeat_agents() -> None:
    """Run one round of heartbeats, unless the previous round is still running."""
    with try_exclusive("agents.heartbeat") as is_mine:
        if is_mine:
            service.heartbeat_agents()
            withholding.release_unavailable_devices()


@shared_task(name=TaskName.DISCOVER_DEVICES.value, soft_time_limit=240, time_limit=300)
def discover_devices() -> None:
    """Look at the machines that are due, unless the previous round is still running."""
    with try_exclusive("agents.machines.discovery") as is_mine:
        if is_mine:
            discovery.discover_due(built_image_ids())


@shared_task(name=TaskName.SUPPLY_MACHINES.value, soft_time_limit=60, time_limit=90)
def supply_machines() -> None:
    """Have the session image brought to machines that have none."""
    transfers.supply_machines(built_image_ids())


@shared_task(name=TaskName.TRANSFER_IMAGES.value, soft_time_limit=60, time_limit=90)
def transfer_images() -> None:
    """Start the transfers of images that wait; they go on in threads of this process."""
    with try_exclusive("agents.machine_images.runner") as is_mine:
        if is_mine:
            runner.start_transfers()


@shared_task(name=TaskName.REMOVE_IMAGES.value, soft_time_limit=540, time_limit=600)
def remove_images() -> None:
    """Remove images that nobody uses from machines whose disk is full."""
    with try_exclusive("agents.machine_images.removal") as is_mine:
        if is_mine:
            removal.remove_unused_images(built_image_ids())


@shared_task(name=TaskName.PARTITION_DEVICES.value, soft_time_limit=240, time_limit=300)
def partition_devices() -> None:
    mig_partitions.apply_layouts()


@shared_task(name=TaskName.KEEP_WALLS.value, soft_time_limit=240, time_limit=300)
def renew_network_isolation() -> None:
    with try_exclusive("agents.machines.network_isolation") as is_mine:
        if is_mine:
            network_isolation.renew_isolation()


@shared_task(name=TaskName.MEASURE_DEVICES.value, soft_time_limit=60, time_limit=90)
def measure_devices() -> None:
    with try_exclusive("agents.metering") as is_mine:
        if is_mine:
            collector.measure_devices()


@shared_task(name=TaskName.KEEP_METERS.value, soft_time_limit=240, time_limit=300)
def keep_meters() -> None:
    with try_exclusive("agents.metering.meters") as is_mine:
        if is_mine:
            meter_containers.reconcile_meters(built_image_ids())


@shared_task(name=TaskName.KEEP_RELAYS.value, soft_time_limit=240, time_limit=300)
def keep_relays() -> None:
    with try_exclusive("agents.relays") as is_mine:
        if is_mine:
            relay_containers.reconcile_relays(built_image_ids())


@shared_task(name=TaskName.ADMIT_MACHINES.value, soft_time_limit=60, time_limit=90)
def admit_machines() -> None:
    with try_exclusive("agents.connections.admission") as is_mine:
        if is_mine:
            admit_invited()


@shared_task(name=TaskName.RENEW_CERTIFICATES.value, soft_time_limit=240, time_limit=300)
def renew_certificates() -> None:
    with try_exclusive("agents.connections.renewal") as is_mine:
        if is_mine:
            renew_client_certificates()
    remove_old_connection_files()
