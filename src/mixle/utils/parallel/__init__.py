"""Rows in shards, shards on workers, statistics added up in shard order."""
