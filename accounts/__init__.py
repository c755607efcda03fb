"""Floor 1: domains, projects, people, their roles and credentials."""
