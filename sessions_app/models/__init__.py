"""All tables of this app."""

from sessions_app.models.app_access import AppGrant, AppLogin, AssignedPort
from sessions_app.models.array import SessionArray
from sessions_app.models.callback import CallbackDelivery, CallbackSecret, SessionCallback
from sessions_app.models.dependency import SessionDependency
from sessions_app.models.idle import Gap, GatewayReport, IdleWatch, Interaction, SessionIdle, SessionWarning
from sessions_app.models.kernel import Kernel, KernelAllocation, KernelLog, KernelMetric, KernelUsage
from sessions_app.models.network import ClusterNetwork, PooledNetwork
from sessions_app.models.personal import Dotfile, PersonalSetup, StartupScript, Written
from sessions_app.models.preemption import Preemption, PreemptionOutcome, close_preemptions
from sessions_app.models.preset import ResourcePreset
from sessions_app.models.priority_change import PriorityChange
from sessions_app.models.session import (
    ComputeSession,
    ComputeSessionQuerySet,
    SessionMount,
    SessionTransition,
    SessionType,
)
from sessions_app.models.storage_reach import StorageReach
from sessions_app.models.template import SessionTemplate

__all__ = [
    "AppGrant",
    "AppLogin",
    "AssignedPort",
    "CallbackDelivery",
    "CallbackSecret",
    "ClusterNetwork",
    "ComputeSession",
    "ComputeSessionQuerySet",
    "Dotfile",
    "Gap",
    "GatewayReport",
    "IdleWatch",
    "Interaction",
    "Kernel",
    "KernelAllocation",
    "KernelLog",
    "KernelMetric",
    "KernelUsage",
    "PersonalSetup",
    "PooledNetwork",
    "Preemption",
    "PreemptionOutcome",
    "PriorityChange",
    "ResourcePreset",
    "SessionArray",
    "SessionCallback",
    "SessionDependency",
    "SessionIdle",
    "SessionMount",
    "SessionTemplate",
    "SessionTransition",
    "SessionType",
    "SessionWarning",
    "StartupScript",
    "StorageReach",
    "Written",
    "close_preemptions",
]
