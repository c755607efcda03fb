"""Free capacity and over-commit."""
