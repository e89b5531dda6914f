"""Recording and replaying traffic."""
