"""Command-line interface `berth`."""
