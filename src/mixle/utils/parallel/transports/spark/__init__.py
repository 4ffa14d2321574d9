"""Shards as partitions of a Spark RDD."""

from mixle.utils.parallel.transports.spark.handle import SparkEncodedData
from mixle.utils.parallel.transports.spark.transport import SparkTransport

__all__ = ["SparkEncodedData", "SparkTransport"]
