"""Files that are none of a session's, and what the machine shows of itself."""

import os
import socket

from inside.rows import ABSENT, FACTS, HELD, ROWS, THROUGH, row

DEPTH = 3
TO_WRITE = {
    "core_pattern": "/proc/sys/kernel/core_pattern",
    "sysrq": "/proc/sysrq-trigger",
    "ip_forward": "/proc/sys/net/ipv4/ip_forward",
    "overcommit": "/proc/sys/vm/overcommit_memory",
    "passwd": "/etc/passwd",
    "usr": "/usr/bin/env",
}
TO_READ = {
    "kcore": "/proc/kcore",
    "keys": "/proc/keys",
    "timer_list": "/proc/timer_list",
    "shadow": "/etc/shadow",
    "kmsg": "/dev/kmsg",
}


def opened(path, flags):
    os.close(os.open(path, flags))
    return THROUGH, "opened"


for name, path in TO_WRITE.items():
    ROWS[f"write:{name}"] = lambda path=path: opened(path, os.O_WRONLY)
for name, path in TO_READ.items():
    ROWS[f"read:{name}"] = lambda path=path: (
        (THROUGH, "read") if os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 16) else (HELD, "empty")
    )


@row("firmware")
def firmware():
    found = os.listdir("/sys/firmware")
    return (THROUGH, ", ".join(found)) if found else (HELD, "empty")


@row("cgroup")
def raise_its_own_limits():
    for path in ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.procs"):
        if os.path.exists(path):
            return opened(path, os.O_WRONLY)
    return ABSENT, "no cgroup file to be seen"


@row("release_agent")
def release_agent():
    directory = "/sys/fs/cgroup/memory/berth-attack"
    if not os.path.exists("/sys/fs/cgroup/memory"):
        directory = "/sys/fs/cgroup/berth-attack"
    os.mkdir(directory)
    os.rmdir(directory)
    return THROUGH, "a group of its own"


@row("engine-socket")
def engine_socket():
    with socket.socket(socket.AF_UNIX) as engine:
        engine.connect("/var/run/docker.sock")
        engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return THROUGH, engine.recv(20).decode()


@row("outside-home")
def write_outside_of_home():
    """Anywhere but in the places that are meant for it."""
    for top, below, _ in os.walk("/"):
        if top.count("/") == DEPTH:
            below.clear()
        if not top.startswith(("/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/home/work", "/mnt")):
            path = f"{top}/berth-{os.getpid()}"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            except OSError:
                continue
            os.unlink(path)
            return THROUGH, top
    return HELD, "no place found"


@row("pid-namespace")
def processes_of_the_machine():
    return same_namespace("pid")


@row("ipc-namespace")
def shared_memory_of_the_machine():
    return same_namespace("ipc")


@row("uts-namespace")
def name_of_the_machine():
    return same_namespace("uts")


def same_namespace(kind):
    found = os.stat(f"/proc/self/ns/{kind}").st_ino
    return (THROUGH, "the machine's own") if found == FACTS[f"{kind}_namespace"] else (HELD, "its own")
