"""Checkpoints: tables of names, and the one engine that reads and writes by them."""

from bert_keras.checkpoints.api import load_checkpoint, save_checkpoint

__all__ = ["load_checkpoint", "save_checkpoint"]
