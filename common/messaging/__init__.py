"""Messages between processes: events, background tasks, live updates, revocations, Redis."""
