"""Idle timeout, minimum utilisation and lifetime."""
