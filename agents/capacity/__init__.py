"""Free capacity, over-commit, and presence of images on agents."""
