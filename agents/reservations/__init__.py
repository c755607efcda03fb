"""Reserved agents."""
