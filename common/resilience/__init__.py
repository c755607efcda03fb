"""Bounds on waiting: circuit breaker, worker pool by key, leases, fault-injection points."""
