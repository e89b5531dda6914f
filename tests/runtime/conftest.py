from coordinator.conftest import bench

__all__ = ["bench"]
