"""Read a resource group as the immutable input of the engine."""
