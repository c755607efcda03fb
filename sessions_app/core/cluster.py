"""Containers of a session with several: their names, sizes, variables and files. Pure.

`main1` runs the command; the others are sub1, sub2…, or named by the roles of the request. All are
in the session's own network and reach each other by name.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from common.i18n import gettext as _
from common.values.resources import CPU, MEM, MILLI, ResourceSlots
from common.values.text import quoted
from sessions_app.core.placement import Gang

MAIN = "main"
SUB = "sub"
MAX_CLUSTER_SIZE = 100
MAX_ROLES = 16
MAX_ROLE_NAME = 20
ROLE_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,18}[a-z])?\Z")
SSH_PORT = 2222
MASTER_PORT = 29500
DIRECTORY = "/etc/berth"
"""Place in each container of the files that `cluster_files` returns."""
HOSTFILE = f"{DIRECTORY}/hostfile"
BEGIN = f"{DIRECTORY}/begin"


class FailurePolicy(StrEnum):
    """Meaning of the end of a container other than main1 for its session."""

    STRICT = "strict"  # the session fails, unless the container's own command succeeded
    TOLERATE = "tolerate"  # the others go on


@dataclass(frozen=True, slots=True)
class Role:
    """Containers of one kind, beside main1. `slots` and `shm_bytes` None: as main1."""

    name: str
    count: int
    slots: ResourceSlots | None = None
    shm_bytes: int | None = None
    command: str = ""
    is_tolerated: bool = False


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """One container: its rank (0 is main1) and its name, by which the others reach it.

    `slots`: how many processes of MPI it is meant for.
    """

    rank: int
    role: str
    index: int
    slots: int = 1

    @property
    def name(self) -> str:
        return f"{self.role}{self.index}"


def check_role_name(value: object) -> str:
    if not isinstance(value, str) or not ROLE_NAME.match(value):
        sentence = _(
            "{name} is not the name of a role. Use up to 20 small letters, digits and dashes; begin and end with a letter."
        )
        raise ValueError(sentence.format(name=quoted(value)))
    return value


def check_role_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < MAX_CLUSTER_SIZE:
        sentence = _("{value} is no number of containers. Give a whole number from 1 to {most}.")
        raise ValueError(sentence.format(value=quoted(value), most=MAX_CLUSTER_SIZE - 1))
    return value


def check_failure_policy(value: object) -> str:
    if not isinstance(value, str) or value not in list(FailurePolicy):
        sentence = _("{value} is no failure policy. Use {policies}.")
        raise ValueError(sentence.format(value=quoted(value), policies=", ".join(FailurePolicy)))
    return value


def check_cluster_mode(value: object) -> str:
    if value is None or value == "":
        return Gang.ONE_MACHINE
    if not isinstance(value, str) or value not in list(Gang):
        sentence = _("{value} does not say where the containers run. Use {modes}.")
        raise ValueError(sentence.format(value=quoted(value), modes=", ".join(Gang)))
    return value


def role_line(role: Mapping[str, Any]) -> str:
    """Return a role of the REST body as people type it: worker=2,cpu=4,mem=8g,tolerate: command."""
    parts = [f"{role['name']}={role.get('count', 1)}"]
    parts += [f"{name}={amount}" for name, amount in (role.get("resources") or {}).items()]
    if role.get("failure_policy") == FailurePolicy.TOLERATE:
        parts.append(FailurePolicy.TOLERATE.value)
    command = role.get("command", "")
    return ",".join(parts) + (f": {command}" if command else "")


def read_role_line(text: str) -> dict[str, Any]:
    """Return the role that a line describes, in the form of the REST body. Raises ValueError."""
    head, _colon, command = text.partition(":")
    first, *others = [part.strip() for part in head.split(",")]
    name, is_pair, count = first.partition("=")
    pairs = [part.partition("=") for part in others if part != FailurePolicy.TOLERATE]
    if not (
        is_pair
        and count.isascii()
        and count.isdecimal()
        and len(count) < 6
        and all(pair[1] for pair in pairs)
    ):
        sentence = _("{line} describes no role. Write it like {example}.")
        raise ValueError(sentence.format(line=quoted(text, 60), example="worker=2,cpu=4,mem=8g"))
    role: dict[str, Any] = {"name": name.strip(), "count": int(count), "command": command.strip()}
    if pairs:
        role["resources"] = {key.strip(): amount.strip() for key, _equals, amount in pairs}
    if FailurePolicy.TOLERATE in others:
        role["failure_policy"] = FailurePolicy.TOLERATE.value
    return role


def check_cluster_combinations(request: Mapping[str, Any], problems: dict[str, list[str]]) -> None:
    """Add to `problems` roles with clashing names, and a size that contradicts them."""
    roles, size = request["roles"] or (), request["cluster_size"]
    names = [role.name for role in roles]
    for number, role in enumerate(roles):
        if role.name == MAIN or role.name in names[:number]:
            sentence = _(
                "Two roles are called “{name}”. Give each a name of its own; main is the first container."
            )
            problems[f"roles.{number}.name"] = [sentence.format(name=role.name)]
        if role.command and request["type"] == "interactive":
            sentence = _("Only a batch session runs a command. Set the type to batch.")
            problems[f"roles.{number}.command"] = [sentence]
    total = 1 + sum(role.count for role in roles)
    if total > MAX_CLUSTER_SIZE:
        sentence = _("A session has at most {most} containers; these roles and main1 are {total}.")
        problems["roles"] = [sentence.format(most=MAX_CLUSTER_SIZE, total=total)]
    elif roles and size not in (None, 1, total):
        sentence = _("main1 and the roles are {total} containers, not {size}. Leave the number out.")
        problems.setdefault("cluster_size", [sentence.format(total=total, size=size)])


def roles_of_size(cluster_size: int) -> tuple[Role, ...]:
    """Return the roles of a request that names none: equal containers, sub1, sub2…"""
    return (Role(SUB, cluster_size - 1),) if cluster_size > 1 else ()


def processes_of(slots: Mapping[str, int]) -> int:
    """Return how many processes of MPI a container is meant for: its devices, else its cores."""
    devices = sum(amount for name, amount in slots.items() if name not in (CPU, MEM))
    return max(1, (devices or slots.get(CPU, 0)) // MILLI)


def cluster_variables(members: Sequence[ClusterMember], own: ClusterMember, interface: str) -> dict[str, str]:
    """Return the variables that users may replace: those of launchers of distributed programs."""
    return {
        "MASTER_ADDR": members[0].name,
        "MASTER_PORT": str(MASTER_PORT),
        "WORLD_SIZE": str(len(members)),
        "RANK": str(own.rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NCCL_SOCKET_IFNAME": interface,
        "GLOO_SOCKET_IFNAME": interface,
        # Open MPI 4, and 5, which starts processes by PRRTE
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "OMPI_MCA_btl_tcp_if_include": interface,
        "OMPI_MCA_oob_tcp_if_include": interface,
        "PRTE_MCA_prte_if_include": interface,
    }


def berth_variables(members: Sequence[ClusterMember], own: ClusterMember) -> dict[str, str]:
    """Return Berth's own variables, which users cannot replace."""
    counts: dict[str, int] = {}
    for member in members:
        counts[member.role] = counts.get(member.role, 0) + 1
    return {
        "BERTH_CLUSTER_SIZE": str(len(members)),
        "BERTH_CLUSTER_HOST": own.name,
        "BERTH_CLUSTER_HOSTS": ",".join(member.name for member in members),
        "BERTH_CLUSTER_ROLE": own.role,
        "BERTH_CLUSTER_INDEX": str(own.index),
        "BERTH_CLUSTER_RANK": str(own.rank),
        "BERTH_CLUSTER_REPLICAS": ",".join(f"{role}:{count}" for role, count in counts.items()),
        "BERTH_CLUSTER_HOSTFILE": HOSTFILE,
        "BERTH_CLUSTER_SSH_PORT": str(SSH_PORT),
    }


_SAMPLE = ClusterMember(0, MAIN, 1)
SSH_VARIABLES = (*cluster_variables([_SAMPLE], _SAMPLE, ""), *berth_variables([_SAMPLE], _SAMPLE))
"""Names of variables that programs started by SSH get, too."""

# Installs the client's settings, and serves SSH in the background if the image can. Programs that
# are started by SSH get the paths of the image, and what launchers of distributed programs read. Values
# with other characters, which users may set, would need quotes of sshd.
_BEGIN = f"""\
if command -v ssh >/dev/null 2>&1 && [ ! -L "$HOME/.ssh" ]; then
  (umask 077; mkdir -p "$HOME/.ssh")
  had=$(cat "$HOME/.ssh/config" 2>/dev/null)
  if [ ! -L "$HOME/.ssh/config" ]; then
    (umask 077; printf 'Include {DIRECTORY}/ssh_config\\n%s\\n' "$had" >"$HOME/.ssh/config")
  fi
fi
for sshd in "$(command -v sshd 2>/dev/null)" /usr/sbin/sshd; do
  [ -x "$sshd" ] || continue
  keep="PATH=$PATH"
  for name in LD_LIBRARY_PATH TMPDIR {" ".join(SSH_VARIABLES)}; do
    eval "value=\\${{$name-}}"
    case "$value" in
    "" | *[!A-Za-z0-9_.,:/@%+=-]*) ;;
    *) keep="$keep $name=$value" ;;
    esac
  done
  (trap '' HUP; exec "$sshd" -D -f {DIRECTORY}/sshd_config -o "SetEnv=$keep" >/dev/null 2>&1) &
  break
done
"""

_SSHD_CONFIG = f"""\
Port {SSH_PORT}
HostKey {DIRECTORY}/host_key
AuthorizedKeysFile {DIRECTORY}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitUserEnvironment no
Subsystem sftp internal-sftp
"""

_SSH_CONFIG = f"""\
Host {{names}}
  Port {SSH_PORT}
  IdentityFile {DIRECTORY}/key
  IdentitiesOnly yes
  UserKnownHostsFile {DIRECTORY}/known_hosts
  GlobalKnownHostsFile /dev/null
  HostKeyAlias berth-session
  StrictHostKeyChecking yes
  LogLevel ERROR
Host *
"""


@dataclass(frozen=True, slots=True)
class KeyPairText:
    """A pair of SSH keys in the formats of OpenSSH's files."""

    private: str
    public: str


def cluster_files(
    members: Sequence[ClusterMember], user_key: KeyPairText, host_key: KeyPairText
) -> dict[str, str]:
    """Return {name: content} of the files in DIRECTORY. Only the container's user may read them."""
    hosts = "".join(f"{member.name} slots={member.slots}\n" for member in members)
    return {
        "begin": _BEGIN,
        "hostfile": hosts,
        "key": user_key.private,
        "authorized_keys": f"{user_key.public}\n",
        "host_key": host_key.private,
        "known_hosts": f"berth-session {host_key.public}\n",
        "sshd_config": _SSHD_CONFIG,
        "ssh_config": _SSH_CONFIG.format(names=" ".join(member.name for member in members)),
    }


def key_seed(secret: str, session_id: UUID, attempt: int, use: str) -> bytes:
    """Return 32 secret bytes from which a key of the session is made: the same whenever its launch is
    repeated, and others for each session, attempt and use.
    """
    return hmac.digest(secret.encode(), f"berth-cluster-key:{session_id}:{attempt}:{use}".encode(), sha256)


def make_key_pair(seed: bytes, comment: str) -> KeyPairText:
    """Return the Ed25519 pair of a seed of 32 bytes."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPairText(private, f"{public} {comment}")
