"""Attacks on files, memory and service, with a time budget: ``python -m tests.faults --minutes 10 [NAME …]``."""
