"""Seccomp profile of sessions: the allowed system calls, as the JSON that engines take. Pure.

An allow-list by purpose; every other call fails with EPERM. Deliberate omissions, with reasons, are
the table of ADR 13 (docs/adr). One list serves all architectures: an engine skips names that its
machine does not know.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

ENOSYS = 38

FILES = (
    "open openat openat2 creat close close_range read readv pread64 preadv preadv2 write writev pwrite64 pwritev "
    "pwritev2 lseek _llseek dup dup2 dup3 fcntl fcntl64 flock ioctl fsync fdatasync sync_file_range sync_file_range2 syncfs "
    "truncate truncate64 ftruncate ftruncate64 fallocate fadvise64 fadvise64_64 readahead sendfile sendfile64 "
    "copy_file_range splice tee vmsplice pipe pipe2 memfd_create memfd_secret cachestat umask"
)
PATHS = (
    "stat stat64 fstat fstat64 lstat lstat64 newfstatat fstatat64 statx statfs statfs64 fstatfs fstatfs64 access "
    "faccessat faccessat2 getcwd chdir fchdir getdents getdents64 mkdir mkdirat rmdir rename renameat renameat2 link "
    "linkat unlink unlinkat symlink symlinkat readlink readlinkat chmod fchmod fchmodat fchmodat2 chown chown32 fchown "
    "fchown32 fchownat lchown lchown32 utime utimes utimensat utimensat_time64 futimesat mknod mknodat getxattr "
    "lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr removexattr lremovexattr "
    "fremovexattr getxattrat setxattrat listxattrat removexattrat inotify_init inotify_init1 inotify_add_watch "
    "inotify_rm_watch"
)
MEMORY = (
    "brk mmap mmap2 munmap mremap mprotect msync madvise mincore mlock mlock2 mlockall munlock munlockall "
    "pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack remap_file_pages membarrier get_mempolicy set_mempolicy "
    "set_mempolicy_home_node mbind process_madvise process_mrelease process_vm_readv process_vm_writev"
)
PROCESSES = (
    "fork vfork execve execveat exit exit_group wait4 waitid waitpid getpid getppid gettid getpgid setpgid getpgrp "
    "getsid setsid set_tid_address arch_prctl set_thread_area get_thread_area prctl ptrace seccomp landlock_add_rule "
    "landlock_create_ruleset landlock_restrict_self pidfd_open pidfd_send_signal restart_syscall rseq uname sysinfo "
    "getrusage times getcpu riscv_flush_icache riscv_hwprobe"
)
SIGNALS = (
    "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigqueueinfo rt_sigreturn rt_sigsuspend "
    "rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack sigreturn signalfd signalfd4 pause alarm"
)
SCHEDULING = (
    "sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam "
    "sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
    "sched_rr_get_interval_time64 getpriority setpriority ioprio_get ioprio_set getrlimit ugetrlimit setrlimit "
    "prlimit64"
)
WAITING = (
    "poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 epoll_create epoll_create1 epoll_ctl "
    "epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 futex futex_time64 futex_waitv "
    "futex_wait futex_wake futex_requeue get_robust_list set_robust_list io_setup io_submit io_cancel io_destroy "
    "io_getevents io_pgetevents io_pgetevents_time64"
)
TIME = (
    "time gettimeofday clock_gettime clock_gettime64 clock_getres clock_getres_time64 clock_nanosleep "
    "clock_nanosleep_time64 nanosleep getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime "
    "timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime "
    "timerfd_settime64"
)
PEOPLE = (
    "getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getresuid getresuid32 getresgid getresgid32 "
    "getgroups getgroups32 setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32 setresuid "
    "setresuid32 setresgid setresgid32 setgroups setgroups32 setfsuid setfsuid32 setfsgid setfsgid32 capget capset "
    "getrandom"
)
NETWORK = (
    "socketpair bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt send sendto sendmsg "
    "sendmmsg recv recvfrom recvmsg recvmmsg recvmmsg_time64 shutdown"
)
IN_COMMON = (
    "ipc shmget shmat shmctl shmdt semget semop semctl semtimedop semtimedop_time64 msgget msgsnd msgrcv msgctl "
    "mq_open mq_unlink mq_timedsend mq_timedsend_time64 mq_timedreceive mq_timedreceive_time64 mq_notify "
    "mq_getsetattr"
)
ALLOWED = (
    FILES, PATHS, MEMORY, PROCESSES, SIGNALS, SCHEDULING, WAITING, TIME, PEOPLE, NETWORK, IN_COMMON,
)  # fmt: skip

# Programs fall back to the older call on ENOSYS, but treat EPERM as a failure. The flags of
# `clone3` are in memory, where no filter sees them.
SAID_TO_BE_ABSENT = "clone3 io_uring_setup io_uring_enter io_uring_register"

NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""

NEW_TIME = 0x80
"""CLONE_NEWTIME; `clone` uses these bits for a signal number."""

PERSONALITIES = (0, 0x40000, 0xFFFFFFFF)
"""Linux; Linux without address space randomisation (debuggers); and the query of the present value.
"""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_FAMILIES = (0, 4, 15, 20)
"""Routes and addresses, `ss`, device events, RDMA. Left out: families that configure firewalls,
crypto and audit.
"""

Json = dict[str, Any]


@cache
def profile_text(more: tuple[str, ...] = ()) -> str:
    """Return the profile that also allows the calls `more`, as compact JSON, for `seccomp=…` in
    SecurityOpt.
    """
    return json.dumps(build_profile(more), separators=(",", ":"))


def build_profile(more: tuple[str, ...] = ()) -> Json:
    """Return the profile. Calls that are not named fail with EPERM; processes of another
    architecture than the machine's (32-bit programs on 64-bit machines) are killed. `more`: calls
    that a driver of accelerators needs.
    """
    absent = [name for name in SAID_TO_BE_ABSENT.split() if name not in more]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            {"architecture": f"SCMP_ARCH_{name}", "subArchitectures": []}
            for name in ("X86_64", "AARCH64", "PPC64LE", "RISCV64")
        ],
        "syscalls": [
            _allow([*(name for names in ALLOWED for name in names.split()), *more]),
            *_without_namespaces(),
            *(_allow(["personality"], {0: value}) for value in PERSONALITIES),
            *(_allow(["socket"], {0: family}) for family in (AF_UNIX, AF_INET, AF_INET6)),
            *(_allow(["socket"], {0: AF_NETLINK, 2: family}) for family in NETLINK_FAMILIES),
            {"names": absent, "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
        ],
    }


def _allow(names: Iterable[str], equal: Mapping[int, int] | None = None) -> Json:
    """Allow these calls if each argument in `equal` {position: value} has that value."""
    arguments = [
        {"index": index, "value": value, "op": "SCMP_CMP_EQ"} for index, value in (equal or {}).items()
    ]
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", "args": arguments}


def _without_namespaces() -> Iterable[Json]:
    """Yield rules that allow `clone` and `unshare` except for new namespaces."""
    for name, mask in (("clone", NEW_NAMESPACES), ("unshare", NEW_NAMESPACES | NEW_TIME)):
        without = {"index": 0, "value": mask, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
        yield {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [without]}
