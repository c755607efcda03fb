"""Programs of others that Berth is measured against: pinned here, installed to var/bench, never part of a portal."""
