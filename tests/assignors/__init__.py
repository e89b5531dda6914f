"""The assignors: what all of them owe, the rules of each, and Java's as the measure."""
