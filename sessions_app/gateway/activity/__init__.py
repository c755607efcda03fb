"""User activity, told from polling."""
