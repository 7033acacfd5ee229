"""Benchmarks beside other libraries. Each program prints a table and can write a JSON report."""
