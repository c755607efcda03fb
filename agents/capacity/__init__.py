"""Free capacity, over-commit and which images are where."""
