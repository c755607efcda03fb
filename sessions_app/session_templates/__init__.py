"""Templates, presets and shortcuts of requests."""
