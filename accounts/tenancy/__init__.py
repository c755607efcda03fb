"""Life cycle of domains, projects and users, from invitation to offboarding."""
