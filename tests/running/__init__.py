"""The suite: its stages, what of it a change needs, its coverage and its length. `bin/test` runs
it.
"""
