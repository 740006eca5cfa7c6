"""Tests of what concerns identity and permission."""
