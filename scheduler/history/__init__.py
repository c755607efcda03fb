"""Records of ticks: writing, reading, replaying."""
