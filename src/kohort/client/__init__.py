"""A client of any Kafka broker: connections, cluster, producer, fetcher, and groups whose generations are task scopes."""
