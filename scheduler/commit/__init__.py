"""Writes of a plan: placements, devices and the reasons to wait."""
