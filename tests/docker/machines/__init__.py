"""Sessions on two real machines."""
