"""Groups with members of both protocols."""
