"""Waiting sessions: queue holds, dependencies, priorities, arrays."""
