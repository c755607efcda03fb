"""Reservations of agents."""
