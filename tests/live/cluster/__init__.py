"""Several nodes on one PostgreSQL under real clients, while everything fails."""
