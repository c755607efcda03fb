"""Docker engines behind the container runtime port."""
