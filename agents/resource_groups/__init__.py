"""Resource groups: settings, access grants, limits and agents."""
