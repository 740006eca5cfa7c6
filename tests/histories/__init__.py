"""Histories of real clients, and a checker that finds in them what Kafka's transactions must never show."""
