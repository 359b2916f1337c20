"""The CPU back end: what operators compute and how their loops run on a processor."""
