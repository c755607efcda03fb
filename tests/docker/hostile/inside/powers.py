"""Being more than a user without privileges."""

import fcntl
import os
import socket
import struct
import subprocess
import tempfile
import time

from inside.rows import ABSENT, FACTS, HELD, THROUGH, row


@row("setuid-program")
def setuid_program():
    program = subprocess.Popen(
        ["su"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with open(f"/proc/{program.pid}/status") as status:
                lines = dict(line.split(":", 1) for line in status)
            if lines["Name"].strip() == "su":
                is_root = lines["Uid"].split()[1] == "0"
                return THROUGH if is_root else HELD, f"su runs as user {lines['Uid'].split()[1]}"
            time.sleep(0.02)
        return ABSENT, "su did not start"
    finally:
        program.kill()
        program.wait()


@row("become-owner")
def give_a_file_away():
    with tempfile.NamedTemporaryFile() as file:
        os.chown(file.name, 0 if os.getuid() else 12345, -1)
    return THROUGH, "done"


@row("device")
def make_a_device():
    path = f"/tmp/device-{os.getpid()}"
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    os.unlink(path)
    return THROUGH, "made"


@row("disk-of-machine")
def read_the_disk_of_the_machine():
    with open("/proc/partitions") as partitions:
        major, minor, _, name = partitions.read().split("\n\n")[1].splitlines()[0].split()
    path = f"/dev/berth-{os.getpid()}"
    os.mknod(path, 0o600 | 0o060000, os.makedev(int(major), int(minor)))
    try:
        os.close(os.open(path, os.O_RDONLY))
        return THROUGH, name
    finally:
        os.unlink(path)


@row("other-accelerator")
def open_the_accelerator_of_a_neighbour():
    """Its own device opens, or nothing is shown by the refusal of the other."""
    os.close(os.open(FACTS["own_device"], os.O_RDWR | os.O_NOCTTY))
    path = f"/dev/berth-{os.getpid()}"  # unlike /tmp, where no device opens
    os.mknod(path, 0o600 | 0o020000, os.makedev(*FACTS["other_device"]))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NOCTTY))
        return THROUGH, "opened"
    finally:
        os.unlink(path)


@row("real-time")
def real_time():
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    return THROUGH, "runs in real time"


@row("nice")
def more_urgent():
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    return THROUGH, "priority -10"


@row("oom-score")
def less_likely_to_be_ended():
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("-500")
    return THROUGH, "-500"


@row("network-card")
def another_address():
    address = struct.pack("16sH2s4s8s", b"eth0", socket.AF_INET, b"", socket.inet_aton("10.9.9.9"), b"")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8916, address)  # SIOCSIFADDR
    return THROUGH, "eth0 has another address"
