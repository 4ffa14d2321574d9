"""Shards on the workers of a Dask cluster."""

from mixle.utils.parallel.transports.dask.handle import DaskEncodedData
from mixle.utils.parallel.transports.dask.transport import DaskTransport

__all__ = ["DaskEncodedData", "DaskTransport"]
