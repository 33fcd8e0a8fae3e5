"""The ZAYA1 model on one device; parallelism is applied from outside."""

from zaya_model.model.zaya import Model

__all__ = ["Model"]
