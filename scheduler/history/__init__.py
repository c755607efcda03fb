"""Record, read and replay ticks."""
