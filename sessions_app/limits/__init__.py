"""Limits that a request must meet: policies, resource group, accelerator model, designated agent."""
