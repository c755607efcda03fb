"""Layouts of MIG partitions that fit on a device."""

from agents.core.mig_layouts import GIB, mig_sizes


def test_layouts_fit_within_seven_slices_and_the_memory() -> None:
    sizes = mig_sizes("NVIDIA H100 80GB HBM3", 80 * GIB)
    assert sizes is not None
    for fits in (
        {"1g.10gb": 7},
        {"3g.40gb": 2},
        {"4g.40gb": 1, "3g.40gb": 1},
        {"2g.20gb": 3, "1g.10gb": 1},
        {},
    ):
        assert sizes.problem(fits) == "", fits
    for too_much in (
        {"1g.10gb": 8},
        {"3g.40gb": 2, "1g.10gb": 1},
        {"4g.40gb": 2},
        {"1g.20gb": 5},
        {"1g.5gb": 1},
    ):
        assert sizes.problem(too_much), too_much


def test_only_devices_with_mig_have_sizes() -> None:
    assert mig_sizes("NVIDIA L40S", 48 * GIB) is None
    assert mig_sizes("NVIDIA A100-SXM4-40GB", 40 * GIB) is not None
    assert mig_sizes("NVIDIA H200", int(140.4 * GIB)) is not None
