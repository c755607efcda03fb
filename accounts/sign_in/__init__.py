"""Sign-in: passwords, LDAP, identity providers, second factors, throttling."""
