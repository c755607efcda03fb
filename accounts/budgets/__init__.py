"""Budgets of users and projects, and prices of resources."""
