"""Form fields that pages of several apps use."""
