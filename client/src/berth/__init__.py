"""Python library of Berth: sessions, folders and batch jobs on a Berth portal.

from berth import Client

with Client() as client:
    image = client.find_image("python")
    session = client.sessions.start(image, project="demo", command="python train.py")
    for piece in session.logs(follow=True):
        print(piece.decode(), end="")
"""

from berth.arrays import SessionArray
from berth.client import Client
from berth.errors import (
    BerthError,
    InvalidInput,
    NotFound,
    NotSignedIn,
    Refused,
    SessionEnded,
    UnexpectedAnswer,
    Unreachable,
    WaitedTooLong,
)
from berth.folders import Folder, Folders
from berth.machine_models import Agent, GroupGrant, GroupLimit, GroupReservation, QueuePlace, ResourceGroup
from berth.models import (
    App,
    Directory,
    Entry,
    Event,
    Image,
    KeyPair,
    Limit,
    Limits,
    Person,
    Project,
    Transition,
    Usage,
)
from berth.resource_groups import Standing
from berth.sessions import Mount, Session, Sessions
from berth.version import __version__

__all__ = [
    "Agent",
    "App",
    "BerthError",
    "Client",
    "Directory",
    "Entry",
    "Event",
    "Folder",
    "Folders",
    "GroupGrant",
    "GroupLimit",
    "GroupReservation",
    "Image",
    "InvalidInput",
    "KeyPair",
    "Limit",
    "Limits",
    "Mount",
    "NotFound",
    "NotSignedIn",
    "Person",
    "Project",
    "QueuePlace",
    "Refused",
    "ResourceGroup",
    "Session",
    "SessionArray",
    "SessionEnded",
    "Sessions",
    "Standing",
    "Transition",
    "UnexpectedAnswer",
    "Unreachable",
    "Usage",
    "WaitedTooLong",
    "__version__",
]
