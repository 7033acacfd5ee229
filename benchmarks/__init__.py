"""Measurements beside other libraries; each prints a table and writes JSON."""
