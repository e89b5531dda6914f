"""What a server tells about itself: health, metrics, groups as JSON, rebalances as log lines."""

from kohort.server.monitoring.observer import Observer

__all__ = ["Observer"]
