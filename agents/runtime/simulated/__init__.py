"""Engines that run nothing, behind the same port."""
