"""Sandboxes and the runtimes of engines that provide them."""

from agents.core.sandboxes import RUNTIMES, Sandbox, gives_devices, offered_sandboxes, sandbox_runtime


def test_a_sandbox_is_the_first_runtime_of_the_engine_that_provides_it() -> None:
    runtimes = ["io.containerd.runc.v2", "kata-qemu", "kata-runtime", "runc", "runsc"]
    assert offered_sandboxes(runtimes) == ["gvisor", "kata"]
    assert sandbox_runtime("gvisor", runtimes) == "runsc"
    assert sandbox_runtime("kata", runtimes) == "kata-runtime"
    assert sandbox_runtime("kata", ["runc", "nvidia"]) is None
    assert sandbox_runtime("runc", []) == ""
    assert offered_sandboxes(["runc", "nvidia"]) == []


def test_every_sandbox_but_runc_has_runtimes_and_gives_no_devices() -> None:
    assert {*RUNTIMES, Sandbox.RUNC} == set(Sandbox)
    assert [sandbox for sandbox in Sandbox if gives_devices(sandbox)] == [Sandbox.RUNC]
