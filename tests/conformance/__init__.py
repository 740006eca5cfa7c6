"""Codecs that others wrote, as witnesses for ours."""
