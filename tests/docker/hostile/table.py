"""Attacks from inside a session: each row with its protection, and how to remove that protection so that
the attack would succeed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

Json = dict[str, Any]
UNCONFINED = "seccomp=unconfined"
POWERS_OF_ROOT = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_ADMIN", "NET_RAW", "SETGID",
    "SETUID", "SETPCAP", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE",
    "SYS_RAWIO", "SYS_TIME", "SYSLOG",
)  # fmt: skip


class Without(Enum):
    """What is taken away: changes to the HostConfig that a session really has. A control container has its name of it."""

    CALLS = "the list of system calls"
    POWER = "everything that keeps root from the machine"
    NO_NEW_PRIVILEGES = "“no new privileges”"
    ROOT = "the read-only root and the small /tmp"
    LIMITS = "all limits"
    NAMESPACES = "namespaces of its own"
    NETWORK = "a network behind walls"
    ALONE = "a network of its own"
    NO_IPV6 = "the switch that turns IPv6 off"


CHANGES: Mapping[Without, Json] = {
    Without.CALLS: {"SecurityOpt": ["no-new-privileges:true", UNCONFINED]},
    # Not “privileged”: that asks for more than some machines have themselves.
    Without.POWER: {
        "CapAdd": list(POWERS_OF_ROOT),
        "SecurityOpt": [UNCONFINED, "apparmor=unconfined"],
        "ReadonlyRootfs": False,
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "DeviceCgroupRules": ["b *:* rwm", "c *:* rwm"],
        "Binds": ["/var/run/docker.sock:/var/run/docker.sock", "/sys/fs/cgroup:/sys/fs/cgroup"],
    },
    Without.NO_NEW_PRIVILEGES: {"SecurityOpt": []},
    Without.ROOT: {"ReadonlyRootfs": False, "Tmpfs": {}},
    Without.LIMITS: {
        "PidsLimit": -1,
        "Memory": 0,
        "MemorySwap": 0,
        "CpusetCpus": "",
        "ShmSize": 2**30,
        "Ulimits": [{"Name": "nofile", "Soft": 20000, "Hard": 20000}],
    },
    Without.NAMESPACES: {"PidMode": "host", "IpcMode": "host", "UTSMode": "host", "NetworkMode": "host"},
    Without.NETWORK: {},
    Without.ALONE: {},
    Without.NO_IPV6: {"Sysctls": {"net.ipv6.conf.all.disable_ipv6": "0"}},
}


@dataclass(frozen=True, slots=True)
class Attack:
    """`name` is that of the row in `inside`. `is_moody`: whether the proof without the wall hangs on the machine (its kernel's
    settings, its route to the outside), so that a machine where it fails is no failure."""

    name: str
    tries: str
    wall: str
    without: Without
    is_moody: bool = False


CALLS = "list of system calls"
CAPABILITIES = "no capability"
USER = "not root in the container"
READ_ONLY = "read-only root"
MASKED = "/proc and /sys are masked or read-only"
TABLE = "walls on the machine (nftables)"


def _calls(without: Without, **rows: str) -> tuple[Attack, ...]:
    return tuple(
        Attack(name.replace("__", "-"), tries, CALLS, without, is_moody=True) for name, tries in rows.items()
    )


KERNEL = (
    *_calls(
        Without.CALLS,
        keyctl="Read the key ring of the kernel, which knows no containers",
        add_key="Put a key on a key ring",
        request_key="Have the machine look for a key",
        perf_event_open="Watch the processor by performance counters",
        userfaultfd="Handle its own page faults (helps to win races in the kernel)",
        io_uring="Make a ring for input and output (passes filters of calls by)",
        clone3="Start a process by the call whose flags no filter sees",
        setns="Enter another namespace",
        open_tree="Take a detached copy of a mount",
        mount_setattr="Change the attributes of a mount",
        quotactl="Ask for disk quotas of the machine",
        name_to_handle_at="Take a handle of a file, to open it by elsewhere",
        move_pages="Move memory between nodes",
        kcmp="Compare kernel pointers of processes",
        modify_ldt="Change the descriptor table of the processor",
        iopl="Ask for direct input and output",
        ioperm="Ask for one port of the hardware",
        personality="Have all that is readable made executable",
        pidfd_getfd="Take an open file out of another process",
        vsock="Speak to the hypervisor of the machine (vsock)",
        alg="Open a socket of the kernel's cipher code",
        netfilter="Open a socket to the firewall of the kernel",
    ),
    Attack("32-bit", "Make a call as 32-bit programs do", CALLS, Without.CALLS, is_moody=True),
    *_calls(
        Without.POWER,
        bpf="Load a program into the kernel",
        unshare="Make a user namespace, and be root in it",
        clone__namespace="Start a process in a user namespace of its own",
        time__namespace="Make a namespace of time",
        mount="Mount a file system",
        umount="Take off what hides a part of /proc",
        pivot_root="Change the root of the file system",
        chroot="Lock itself up in a part of the file system, from where it is broken out of",
        move_mount="Attach a mount elsewhere",
        fsopen="Prepare a file system for mounting",
        kexec_load="Load another kernel",
        kexec_file_load="Load another kernel from a file",
        reboot="Boot the machine anew",
        init_module="Load a kernel module",
        delete_module="Unload a kernel module",
        swapon="Turn on swap space",
        clock_settime="Set the clock of the machine",
        syslog="Read the log of the kernel",
        acct="Turn on accounting of processes",
        open_by_handle_at="Open files of the machine by handle",
        fanotify="Watch all files of a file system",
        sethostname="Give itself another name",
    ),
)
POWERS = (
    Attack("setuid", "Become root by asking", CAPABILITIES, Without.POWER),
    Attack(
        "setuid-program",
        "Become root by a program that is set so (su)",
        "no new privileges",
        Without.NO_NEW_PRIVILEGES,
    ),
    Attack("become-owner", "Give a file to another user", CAPABILITIES, Without.POWER),
    Attack("device", "Make a device file", CAPABILITIES, Without.POWER),
    Attack(
        "disk-of-machine",
        "Read the machine's disk through a device file",
        f"{CAPABILITIES}, no device",
        Without.POWER,
        is_moody=True,
    ),
    Attack(
        "other-accelerator",
        "Open the accelerator beside its own through a device file",
        f"{CAPABILITIES}, devices of its grant alone",
        Without.POWER,
        is_moody=True,
    ),
    Attack("raw", "Open a raw socket", CAPABILITIES, Without.POWER),
    Attack(
        "packet",
        "Listen to and forge all packets of its network card",
        f"{CAPABILITIES}, {CALLS}",
        Without.POWER,
        is_moody=True,
    ),
    Attack("network-card", "Give its network card another address", CAPABILITIES, Without.POWER),
    Attack("real-time", "Run before everybody else", CAPABILITIES, Without.POWER, is_moody=True),
    Attack("nice", "Raise its own priority", CAPABILITIES, Without.POWER),
    Attack(
        "oom-score",
        "Have others ended in its place when memory is short",
        CAPABILITIES,
        Without.POWER,
        is_moody=True,
    ),
    Attack("more-open-files", "Raise its own limit of open files", CAPABILITIES, Without.LIMITS),
)
FILES = (
    Attack(
        "engine-socket",
        "Find the socket of the engine",
        "only folders of the person are mounted",
        Without.POWER,
    ),
    Attack("read:shadow", "Read /etc/shadow", USER, Without.POWER),
    Attack("write:passwd", "Write to /etc/passwd", f"{USER}, {READ_ONLY}", Without.POWER),
    Attack("write:usr", "Replace a program in /usr/bin", f"{USER}, {READ_ONLY}", Without.POWER),
    Attack(
        "outside-home", "Write anywhere but in its home and to places for scratch", READ_ONLY, Without.ROOT
    ),
    Attack("write:core_pattern", "Have the machine run a program at the next crash", MASKED, Without.POWER),
    Attack("write:sysrq", "Crash the machine by /proc/sysrq-trigger", MASKED, Without.POWER, is_moody=True),
    Attack("write:ip_forward", "Change a setting of the kernel's network", MASKED, Without.POWER),
    Attack("write:overcommit", "Change a setting of the machine's memory", MASKED, Without.POWER),
    Attack("read:kcore", "Read the memory of the kernel", MASKED, Without.POWER, is_moody=True),
    Attack("read:keys", "See who has keys on the machine", MASKED, Without.POWER, is_moody=True),
    Attack("read:timer_list", "See the timers of the kernel", MASKED, Without.POWER, is_moody=True),
    Attack(
        "read:kmsg", "Read the kernel's messages by its device", "no device", Without.POWER, is_moody=True
    ),
    Attack("firmware", "Look at the firmware of the machine", MASKED, Without.POWER, is_moody=True),
    Attack("cgroup", "Raise its own limits", MASKED, Without.POWER, is_moody=True),
    Attack(
        "release_agent",
        "Make a control group, whose end runs a program on the machine",
        MASKED,
        Without.POWER,
        is_moody=True,
    ),
    Attack("pid-namespace", "See the processes of the machine", "namespaces of its own", Without.NAMESPACES),
    Attack(
        "ipc-namespace", "See the shared memory of the machine", "namespaces of its own", Without.NAMESPACES
    ),
    Attack("uts-namespace", "Have the name of the machine", "namespaces of its own", Without.NAMESPACES),
)
LIMITS = (
    Attack("threads", "Start 50 threads more than it may", "limit of processes (4096)", Without.LIMITS),
    Attack("memory", "Take 64 MiB more than its memory", "memory limit, no swap", Without.LIMITS),
    Attack(
        "other-cores",
        "Run on all cores of the machine",
        "cores of its own (cpuset)",
        Without.LIMITS,
        is_moody=True,
    ),
    Attack("open-files", "Open more files than it may", "limit of open files (16384)", Without.LIMITS),
    Attack("core-dump", "Have core dumps written", "no core dumps", Without.LIMITS),
    Attack("fill-shm", "Fill more shared memory than it asked for", "size of /dev/shm", Without.LIMITS),
    Attack("fill-tmp", "Fill /tmp with more than half of its memory", "size of /tmp", Without.ROOT),
)
NETWORK = (
    Attack("gateway", "Reach a service of the machine by the bridge's address", TABLE, Without.NETWORK),
    Attack("main-address", "Reach a service of the machine by its own address", TABLE, Without.NETWORK),
    Attack("datagram", "Reach it by UDP", TABLE, Without.NETWORK),
    Attack("link-local", "Reach a service at a link-local address", TABLE, Without.NETWORK, is_moody=True),
    Attack("loopback", "Reach what listens on the machine's loopback (PostgreSQL, Redis)", "network of its own", Without.NAMESPACES),
    Attack("abstract-socket", "Reach an abstract socket of the machine", "network of its own", Without.NAMESPACES),
    Attack("other-session", "Reach another session by its address", "network of its own, walls", Without.ALONE),
    Attack("other-session-by-name", "Reach another session by its name", "network of its own", Without.ALONE),
    Attack("metadata", "Ask for the machine's keys at 169.254.169.254", TABLE, Without.NETWORK, is_moody=True),
    Attack("metadata-azure", "The same where Azure keeps them", TABLE, Without.NETWORK, is_moody=True),
    Attack("metadata-alibaba", "The same where Alibaba Cloud keeps them", TABLE, Without.NETWORK, is_moody=True),
    Attack("engine-of-others", "Call the engine of another machine", TABLE, Without.NETWORK, is_moody=True),
    Attack("engine-of-others-tls", "The same, by TLS", TABLE, Without.NETWORK, is_moody=True),
    Attack("ipv6", "Have an IPv6 address, which rules for IPv4 do not see", "IPv6 is off in its network", Without.NO_IPV6, is_moody=True),
)  # fmt: skip
AREAS = {
    "The kernel": KERNEL,
    "Powers": POWERS,
    "Files and what the machine shows of itself": FILES,
    "Limits": LIMITS,
    "Network": NETWORK,
}
ATTACKS = tuple(attack for area in AREAS.values() for attack in area)
