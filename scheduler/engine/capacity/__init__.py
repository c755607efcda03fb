"""Free capacity of agents during a pass: reservations, backfill, shared devices, placement groups."""
