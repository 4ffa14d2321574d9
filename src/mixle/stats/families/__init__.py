"""Leaf families, one short file each."""
