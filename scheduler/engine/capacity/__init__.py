"""Free capacity of agents during a pass: holds, reservations, backfill, placement groups."""
