"""What `spark-submit` is given: it takes a file, and the job is a module."""

import runpy

runpy.run_module("kafka_recovery_spark", run_name="__main__")
