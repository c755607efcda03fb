"""Order of the queue, quotas, fair share, preemption."""
