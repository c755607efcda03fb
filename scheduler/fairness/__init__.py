"""Fair share: usage, weights, and the entry of each tenant."""
