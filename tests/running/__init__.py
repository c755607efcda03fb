"""Run the test suite for `bin/test`: stages, selection by change, coverage and durations."""
