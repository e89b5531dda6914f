"""Real clients under load while the server is killed again and again; see `__main__`."""
