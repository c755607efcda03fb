"""Connects the ports of all apps to their implementations."""

from django.utils import translation

import accounts.ports
import agents.ports
import common.ports
import images.ports
import scheduler.forecast.service
import sessions_app.offboarding
import sessions_app.ports
import sessions_app.queue.closed_groups
import sessions_app.termination.folder_mounts
import vfolders.offboarding
import vfolders.ports
from agents.machine_images.selectors import image_holders
from portal.audit.labels import PARAMETERS
from portal.notifications.selectors import find_helpers
from scheduler.history.recorder import record_hold_state
from scheduler.run_state import discard_plans
from sessions_app.limits.group_rules import session_counts
from sessions_app.selectors import allocations_by_owner, uses_of_folder
from vfolders.selectors import storage_host_names


def connect_ports() -> None:
    """Connect all ports; called from AppConfig.ready of the portal in every process."""
    common.ports.translator.connect(translation)
    common.ports.helpers.connect(find_helpers)
    common.ports.address_parameters.connect(PARAMETERS)
    accounts.ports.storage_host_names.connect(storage_host_names)
    accounts.ports.allocations.connect(allocations_by_owner)
    # Order matters: a folder that a live session mounts cannot be deleted.
    accounts.ports.offboarding_handlers.connect(sessions_app.offboarding)
    accounts.ports.offboarding_handlers.connect(vfolders.offboarding)
    images.ports.image_holders.connect(image_holders)
    agents.ports.session_counts.connect(session_counts)
    agents.ports.excluded_sessions.connect(sessions_app.queue.closed_groups)
    agents.ports.plan_discarder.connect(discard_plans)
    vfolders.ports.folder_deletion_guards.connect(uses_of_folder)
    vfolders.ports.folder_sessions.connect(sessions_app.termination.folder_mounts)
    sessions_app.ports.hold_recorder.connect(record_hold_state)
    sessions_app.ports.start_forecaster.connect(scheduler.forecast.service)
