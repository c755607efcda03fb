"""Pages of users, projects and domains for administrators."""
