"""Agents: registration, heartbeats, accelerators, network isolation."""
