"""Reach of storage hosts from machines: proofs, settings, reads."""
