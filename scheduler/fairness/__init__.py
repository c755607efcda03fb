"""Fair share: usage, weights, and the fair-share entry of each tenant."""
