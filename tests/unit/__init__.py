"""Tests of one package each, without a running broker."""
