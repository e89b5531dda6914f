"""Small things that several rooms share and that know no state. Each module is imported itself."""
