"""Bounds on waiting: circuit breaker, worker pool by key, fault-injection points."""
