"""Idle timeout, minimum utilisation and lifetime of running sessions."""
