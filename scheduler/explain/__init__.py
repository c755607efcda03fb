"""Sentences for each reason to wait."""
