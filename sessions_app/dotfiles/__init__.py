"""Dotfiles and start-up scripts: storage, and delivery into containers."""
