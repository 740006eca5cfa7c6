"""The page of the benchmarks, without a benchmark."""
