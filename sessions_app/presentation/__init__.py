"""Sessions as pages and REST show them."""
