"""tests: unit, property, conformance, real clients, benchmarks."""
