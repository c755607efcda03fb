"""Form fields shared by pages of several apps."""
