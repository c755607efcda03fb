"""Simulated engines, which implement the runtime port without running containers."""
