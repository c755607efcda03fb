"""All tables of this app."""

from agents.models.accelerator import MODEL_LENGTH, RETURNING, AgentDevice, Withheld
from agents.models.agent import DEVICE_FIELDS, REASON_LENGTH, Agent, AgentImage, AgentQuerySet, AgentSlot
from agents.models.authority import Authority, Realm, SshKey
from agents.models.connection import KIND_TITLES, ConnectionKind, credentials_of
from agents.models.device_metric import DeviceMetric, DeviceReading
from agents.models.health_rule import HealthAction, HealthOverride
from agents.models.image_transfer import TIME_LIMIT, ImageTransfer, ImageTransferQuerySet
from agents.models.invitation import MachineInvitation
from agents.models.relay import AgentRelay, RelayRoute
from agents.models.reservation import Reservation, ReservedAgent
from agents.models.resource_group import (
    LEAST_HALF_LIFE_S,
    LEAST_SPAN_S,
    MOST_HALF_LIFE_S,
    MOST_NOTICE_S,
    MOST_OVERCOMMIT,
    GroupGrant,
    ResourceGroup,
    ResourceGroupQuerySet,
    Scheduler,
    SessionType,
    Strategy,
)
from agents.models.sharing import SharingMode, SharingRule
from agents.models.vendor_file import VendorFile

__all__ = [
    "DEVICE_FIELDS",
    "KIND_TITLES",
    "LEAST_HALF_LIFE_S",
    "LEAST_SPAN_S",
    "MODEL_LENGTH",
    "MOST_HALF_LIFE_S",
    "MOST_NOTICE_S",
    "MOST_OVERCOMMIT",
    "REASON_LENGTH",
    "RETURNING",
    "TIME_LIMIT",
    "Agent",
    "AgentDevice",
    "AgentImage",
    "AgentQuerySet",
    "AgentRelay",
    "AgentSlot",
    "Authority",
    "ConnectionKind",
    "DeviceMetric",
    "DeviceReading",
    "GroupGrant",
    "HealthAction",
    "HealthOverride",
    "ImageTransfer",
    "ImageTransferQuerySet",
    "MachineInvitation",
    "Realm",
    "RelayRoute",
    "Reservation",
    "ReservedAgent",
    "ResourceGroup",
    "ResourceGroupQuerySet",
    "Scheduler",
    "SessionType",
    "SharingMode",
    "SharingRule",
    "SshKey",
    "Strategy",
    "VendorFile",
    "Withheld",
    "credentials_of",
]
