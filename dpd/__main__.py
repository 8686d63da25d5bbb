"""Run the command line as ``python -m dpd``."""

from dpd.cli import run

run()
