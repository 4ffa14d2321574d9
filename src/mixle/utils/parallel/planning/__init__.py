"""Devices, placements and memory estimates: where shards should go."""
