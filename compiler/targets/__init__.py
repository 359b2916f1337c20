"""Back ends."""
