"""Models built from models: composite, record, sequence, optional, ignored, null."""
