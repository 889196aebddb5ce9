"""Measurements and closed-form predictions that several experiments share."""
