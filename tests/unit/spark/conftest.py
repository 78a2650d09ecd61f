"""What every key of a stream starts from."""

from __future__ import annotations

from support.spark_streams import base

__all__ = ["base"]
