"""Connections to engines: certificates, SSH, and adding machines."""
