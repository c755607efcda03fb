"""Calls to the kernel. One is through if the kernel looked at its arguments."""

import ctypes
import errno
import mmap
import os
import platform
import signal
import socket
import struct

from inside.rows import ABSENT, HELD, ROWS, THROUGH, row

IS_X86 = platform.machine() == "x86_64"
HERE = -100  # AT_FDCWD
libc = ctypes.CDLL(None, use_errno=True)

# (number on x86-64, number elsewhere; None: there is none), arguments
CALLS = {
    "keyctl": ((250, 219), (0, -3, 0)),
    "add_key": ((248, 217), (b"user", b"berth", b"x", 1, -2)),
    "request_key": ((249, 218), (b"user", b"berth-none", 0, 0)),
    "bpf": ((321, 280), (0, 0, 0)),
    "perf_event_open": ((298, 241), (0, 0, -1, -1, 0)),
    "userfaultfd": ((323, 282), (1,)),
    "io_uring": ((425, 425), (0, 0)),
    "clone3": ((435, 435), (0, 0)),
    "setns": ((308, 268), (-1, 0)),
    "unshare": ((272, 97), (0x10000000,)),
    "time-namespace": ((272, 97), (0x80,)),
    "mount": ((165, 40), (b"tmpfs", b"/mnt", b"tmpfs", 0, 0)),
    "umount": ((166, 39), (b"/proc/kcore", 0)),
    "pivot_root": ((155, 41), (b"/", b"/")),
    "chroot": ((161, 51), (b"/",)),
    "open_tree": ((428, 428), (HERE, b"/", 0)),
    "move_mount": ((429, 429), (-1, b"", -1, b"", 0)),
    "fsopen": ((430, 430), (b"tmpfs", 0)),
    "mount_setattr": ((442, 442), (-1, b"", 0, 0, 0)),
    "kexec_load": ((246, 104), (0, 0, 0, 0xFFFF)),
    "kexec_file_load": ((320, 294), (-1, -1, 0, 0, 0xFFFF)),
    "reboot": ((169, 142), (0, 0, 0, 0)),
    "init_module": ((175, 105), (0, 0, b"")),
    "delete_module": ((176, 106), (b"berth_none", 0)),
    "swapon": ((167, 224), (b"/nonexistent", 0)),
    "clock_settime": ((227, 112), (0, struct.pack("qq", -1, -1))),
    "syslog": ((103, 116), (3, bytes(64), 10)),
    "acct": ((163, 89), (b"/nonexistent",)),
    "quotactl": ((179, 60), (0xFFFF00, 0, 0, 0)),
    "open_by_handle_at": ((304, 265), (HERE, bytes(8), 0)),
    "name_to_handle_at": ((303, 264), (HERE, b"/", bytes(8), bytes(8), 0)),
    "fanotify": ((300, 262), (0, 0)),
    "move_pages": ((279, 239), (0, 0, 0, 0, 0, 0)),
    "kcmp": ((312, 272), (os.getpid(), os.getpid(), 1, 0, 0)),
    "modify_ldt": ((154, None), (0, bytes(16), 0)),
    "iopl": ((172, None), (0,)),
    "ioperm": ((173, None), (0, 1, 0)),
    "personality": ((135, 92), (0x0400000,)),
    "pidfd_getfd": ((438, 438), (-1, 0, 0)),
    "sethostname": ((170, 161), (b"berth", 5)),
    "setuid": ((105, 146), (0,)),
}
SOCKETS = {
    "vsock": (40, socket.SOCK_STREAM, 0),
    "alg": (38, socket.SOCK_SEQPACKET, 0),
    "netfilter": (16, socket.SOCK_RAW, 12),
    "packet": (17, socket.SOCK_RAW, 0),
    "raw": (2, socket.SOCK_RAW, 1),
}


def call(numbers, arguments):
    number = numbers[0] if IS_X86 else numbers[1]
    if number is None:
        return ABSENT, "not on this architecture"
    given = [each if isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *given) != -1:
        return THROUGH, "done"
    code = ctypes.get_errno()
    if code == errno.ENOSYS:
        return ABSENT, os.strerror(code)
    return HELD if code == errno.EPERM else THROUGH, os.strerror(code)


for name, (numbers, arguments) in CALLS.items():
    ROWS[name] = lambda numbers=numbers, arguments=arguments: call(numbers, arguments)
for name, told in SOCKETS.items():
    ROWS[name] = lambda told=told: (THROUGH, str(socket.socket(*told).fileno()))


@row("clone-namespace")
def clone_namespace():
    child = libc.syscall(
        ctypes.c_long(56 if IS_X86 else 220), ctypes.c_long(0x10000000 | signal.SIGCHLD), 0, 0, 0, 0
    )
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        return THROUGH, "a process in a new user namespace"
    return HELD, os.strerror(ctypes.get_errno())


@row("32-bit")
def call_of_32_bit_programs():
    if not IS_X86:
        return ABSENT, "not on this architecture"
    # mov eax, 20 (getpid); int 0x80; ret
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    child = os.fork()
    if child == 0:
        place = ctypes.addressof(ctypes.c_char.from_buffer(page))
        os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(place)() == os.getpid() else 1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV:
        return ABSENT, "the kernel runs no 32-bit programs"
    if os.WIFSIGNALED(status):
        return HELD, signal.Signals(os.WTERMSIG(status)).name
    return THROUGH, "answered"
