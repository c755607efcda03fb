"""Resource policies and their assignment to domains, projects, users and keypairs."""
