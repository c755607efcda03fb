"""Compute sessions: request, queue, launch, termination, terminal and app gateway."""
