"""Streams of keys on Spark, measured: kills, throughput, skew."""
