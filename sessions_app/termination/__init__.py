"""End of sessions: stops, preemption, retries, out-of-memory kills."""
