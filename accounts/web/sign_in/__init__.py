"""Pages of sign-in and sign-up."""
