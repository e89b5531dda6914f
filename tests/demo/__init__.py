"""Tests of the demo: its pure parts on one literal moment, and the whole show once."""
