"""A client of any Kafka broker: cluster, producer, fetcher, groups whose generations are task scopes."""
