"""A fleet's evidence at once: the same guards and orders as in `decision`, compiled to columns of Spark."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("PySpark is missing: pip install '.[spark]' in its checkout") from error
