"""Sharing of accelerators: rules, mechanisms that limit a part, and partitions."""
