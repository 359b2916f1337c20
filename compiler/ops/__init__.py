"""Operators as tensor expressions with schedule templates."""
