"""Which checkpoints are kept, and the removal of the others."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from zaya_model.checkpoint.manifest import NAME, Manifest, list_checkpoints, read_manifest
from zaya_model.config import CheckpointConfig
from zaya_model.errors import CheckpointError


def kept(manifests: Sequence[Manifest], config: CheckpointConfig) -> set[int]:
    """Steps to keep: the newest, every so many steps, and the best by a metric that was measured at that very step."""
    newest = sorted((manifest.step for manifest in manifests), reverse=True)[: config.keep_last]
    milestones = [m.step for m in manifests if config.keep_every_steps and m.step % config.keep_every_steps == 0]
    return {*newest, *milestones, *_best(manifests, config)}


def prune(run_dir: Path, config: CheckpointConfig, newest: int) -> list[int]:
    """Remove what is not kept and older than `newest`, and what older saves left half done; returns removed steps.

    Manifests go first, so half a removal is no checkpoint.
    """
    folders = list_checkpoints(run_dir)
    whole = [manifest for _, folder in folders if (manifest := whole_manifest(folder)) is not None]
    keep, steps = kept(whole, config), {manifest.step for manifest in whole}
    removed = []
    for step, folder in folders:
        if step >= newest or step in keep:
            continue
        (folder / NAME).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        if step in steps:
            removed.append(step)
    return removed


def whole_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder that is a checkpoint."""
    try:
        return read_manifest(folder)
    except CheckpointError:
        return None


def _best(manifests: Sequence[Manifest], config: CheckpointConfig) -> list[int]:
    measured = [
        (manifest.metrics[config.best_metric], manifest.step)
        for manifest in manifests
        if math.isfinite(manifest.metrics.get(config.best_metric, math.nan))
    ]
    ranked = sorted(measured, key=lambda pair: (pair[0] if config.best_is == "lowest" else -pair[0], -pair[1]))
    return [step for _, step in ranked[: config.keep_best]]
