"""Engines that behave as machines of a cluster, on one machine: to try Berth, and to test it."""
