"""Session templates, resource presets, and starts without a form."""
