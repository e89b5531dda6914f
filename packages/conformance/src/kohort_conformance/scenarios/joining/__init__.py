"""JoinGroup."""
