"""The seccomp profile as data; its effect is tested by tests/docker/hostile_session.py."""

from agents.runtime.profiles.seccomp import ALLOWED, build_profile

DANGEROUS = """
keyctl add_key request_key bpf perf_event_open userfaultfd mount umount2 pivot_root move_mount open_tree
fsopen fsmount fsconfig mount_setattr setns chroot kexec_load kexec_file_load reboot init_module finit_module
delete_module swapon swapoff iopl ioperm acct syslog settimeofday clock_settime adjtimex sethostname
setdomainname open_by_handle_at name_to_handle_at fanotify_init quotactl lookup_dcookie move_pages
migrate_pages kcmp modify_ldt uselib nfsservctl vhangup pidfd_getfd sync
"""


def allowed() -> list[str]:
    rules = build_profile()["syscalls"]
    return [name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]]


def test_what_is_not_named_is_refused() -> None:
    assert build_profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    assert set(DANGEROUS.split()).isdisjoint(allowed())


def test_no_call_is_allowed_twice_once_with_and_once_without_conditions() -> None:
    plain = [name for names in ALLOWED for name in names.split()]
    assert len(set(plain)) == len(plain)
    conditional = set(allowed()[len(plain) :])
    assert conditional == {"clone", "unshare", "personality", "socket"}
    assert conditional.isdisjoint(plain)


def test_only_the_machine_s_own_architecture_is_spoken() -> None:
    assert all(each["subArchitectures"] == [] for each in build_profile()["archMap"])


def test_calls_with_a_fallback_are_said_to_be_absent() -> None:
    [absent] = [rule for rule in build_profile()["syscalls"] if "errnoRet" in rule]
    assert "clone3" in absent["names"]
    assert absent["errnoRet"] == 38
