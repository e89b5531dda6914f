"""The verbs of an embedded Kafka over HTTP, for tests in other languages and other processes."""
