"""Resource groups: access, limits, when their sessions end."""
