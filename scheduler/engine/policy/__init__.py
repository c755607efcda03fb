"""Queue order, quotas, fair share and preemption."""
