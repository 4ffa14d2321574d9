"""Shards on actors of a Ray cluster; blocks of a Ray Dataset stay where they are."""

from mixle.utils.parallel.transports.ray.handle import RayEncodedData
from mixle.utils.parallel.transports.ray.transport import RayTransport

__all__ = ["RayEncodedData", "RayTransport"]
