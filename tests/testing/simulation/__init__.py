"""The deterministic simulation of server and client."""
