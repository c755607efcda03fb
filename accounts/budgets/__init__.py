"""Budgets and prices."""
