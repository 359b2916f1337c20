"""A board under PYNQ: its overlay, its clock, its memory. pynq is imported when one is opened."""
