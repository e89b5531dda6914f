"""Tests of the assignors of the server."""
