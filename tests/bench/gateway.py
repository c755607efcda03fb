"""Compare the gateway with JupyterHub's proxy before the same app under the same load."""

from collections.abc import Callable

from portal.ops.errors import PreflightFailed
from tests.bench import load
from tests.bench.frame import (
    Measure,
    Options,
    Row,
    Target,
    at_least,
    at_most,
    measure_in_turns,
    never_above,
    say,
)
from tests.bench.gateway_stage import Proxy, two_proxies
from tests.bench.processes import rss_mib
from tests.prepare import ensure_program

TRANSFER_BYTES = 500_000_000
WARM_UP_BYTES = 100_000_000
GROWTH_MIB = 20
Load = Callable[[load.Door], float]
Trial = Callable[[load.Door, Callable[[], None]], None]


def bench(options: Options) -> list[Row]:
    try:
        ensure_program("wrk", "wrk", say)
        with two_proxies() as (ours, peer):
            for proxy in (ours, peer):
                warm_up(proxy)
            return measure_in_turns(measures(ours, peer), options)
    except PreflightFailed as fault:
        raise SystemExit(f"{fault.message}\nfix: {fault.fix}") from fault


def measures(ours: Proxy, peer: Proxy) -> list[Measure]:
    def pair(name: str, unit: str, run: Load, target: Target) -> Measure:
        return Measure(name, unit, lambda: run(ours.door), lambda: run(peer.door), target)

    def growth(name: str, trial: Trial) -> Measure:
        return Measure(
            f"memory, {name}",
            "MiB",
            lambda: growth_mib(ours, trial),
            lambda: growth_mib(peer, trial),
            never_above(GROWTH_MIB),
            most_rounds=2,
        )

    return [
        pair("requests, 32 connections", "1/s", load.requests_per_s, at_least(1.8)),
        pair("500 MB down", "MB/s", lambda d: load.download_mb_per_s(d, TRANSFER_BYTES), at_least(2.5)),
        pair("500 MB up", "MB/s", lambda d: load.upload_mb_per_s(d, TRANSFER_BYTES), at_least(1.5)),
        pair("websocket echo, p50", "µs", load.echo_p50_us, at_most(1.5)),
        pair("websocket echo, 16 × 8", "1/s", load.echoes_per_s, at_least(0.45)),
        growth("slow reader", load.read_slowly),
        growth("slow upload", load.upload_to_slow_app),
        growth("stalled websocket", load.stall_websocket),
    ]


def warm_up(proxy: Proxy) -> None:
    """Load the proxy once, so that one-time memory does not count as growth."""
    load.requests_per_s(proxy.door)
    load.download_mb_per_s(proxy.door, WARM_UP_BYTES)
    load.upload_mb_per_s(proxy.door, WARM_UP_BYTES)


def growth_mib(proxy: Proxy, trial: Trial) -> float:
    """Return the peak growth of the proxy's memory during the trial, in MiB."""
    before = rss_mib(proxy.pid)
    seen: list[float] = []
    trial(proxy.door, lambda: seen.append(rss_mib(proxy.pid)))
    return max(0.0, max(seen) - before)
