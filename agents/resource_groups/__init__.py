"""Resource groups: settings, access grants, limits, and rules for the end of sessions."""
