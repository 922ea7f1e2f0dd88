"""Configuration of lit: every `.mlir` file here is a test, run in lit's own shell."""

import os
import sys

import lit.formats

config.name = "cleave"
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, "Output")
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Output"]
config.environment["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
# The code beside these tests, whatever the environment was installed from.
config.environment["PYTHONPATH"] = os.path.dirname(config.test_source_root)
config.environment["PYTHONWARNINGS"] = "ignore"
