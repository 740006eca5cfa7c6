"""distributions.spark: `tallystick-spark`, the Spark connector alone, under one name.

`__main__` writes its source tree: `python -m distributions.spark FOLDER`, and then `pip wheel FOLDER`
`vendored` which modules of ours it needs, and how their imports read below `spark_connector._vendor`
`pyproject.toml` and `README.md` are those of the distribution
"""
