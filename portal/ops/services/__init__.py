"""Processes that `bin/up` supervises."""
