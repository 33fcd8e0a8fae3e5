"""The data of the phase a run is in: its mixture of training windows and its held-out parts."""

from pathlib import Path

from zaya_model.config import Phase, RunConfig
from zaya_model.data.loader import Mixture, Split, split_data
from zaya_model.data.prepare import open_data, tokenizer_of
from zaya_model.data.shards import TokenFolder
from zaya_model.errors import ConfigError, DataError, Problem
from zaya_model.parallel.mesh import World
from zaya_model.train.evaluate import HeldOut


class Feed:
    """Open every source of a run at the start, so that a missing one is known before the first step."""

    def __init__(self, config: RunConfig, cache: Path, world: World) -> None:
        self.config = config
        self.folders: dict[str, TokenFolder] = {}
        self.mixture: Mixture | None = None
        self.held_out: list[HeldOut] = []
        paths = list(dict.fromkeys(path for phase in config.phases for path in phase.mix))
        # One process makes the tokens, the others find them made.
        if world.is_first:
            self._open(paths, cache)
        world.wait()
        if not world.is_first:
            self._open(paths, cache)

    def enter(self, phase: Phase) -> bool:
        """Turn to a phase; returns whether it is another one than before."""
        if self.mixture is not None and self.mixture.phase.index == phase.index:
            return False
        self.mixture = self._mixture(phase)
        self.held_out = []
        for path, share in phase.mix.items():
            _, validation = self._split(path, phase)
            if validation.num_windows:
                self.held_out.append(HeldOut(path, validation, share, self.folders[path].bytes_per_token))
        return True

    def _open(self, paths: list[str], cache: Path) -> None:
        tokenizers = set()
        for path in paths:
            folder = self.folders[path] = open_data(path, self.config.data.tokenizer, cache)
            if (need := folder.manifest.vocab_size) > self.config.model.vocab_size:
                raise ConfigError([Problem("model.vocab_size", f"the tokenizer of {path} needs at least {need:,}")])
            name = tokenizer_of(path, self.config.data.tokenizer)
            tokenizers.add(name if name == "bytes" else Path(name).read_bytes())
        if len(tokenizers) > 1:
            raise DataError("The data of this run were made with different tokenizers; prepare them with the same one.")

    def _split(self, path: str, phase: Phase) -> tuple[Split, Split]:
        return split_data(
            self.folders[path],
            sequence_length=phase.sequence_length,
            validation_fraction=self.config.data.validation_fraction,
        )

    def _mixture(self, phase: Phase) -> Mixture:
        """The phase's samples; what earlier phases took of a source at the same length is not taken again."""
        taken: dict[str, int] = {}
        for earlier in self.config.phases[: phase.index]:
            if earlier.sequence_length == phase.sequence_length:
                before = tuple(taken.get(path, 0) for path in earlier.mix)
                sources = tuple(self._split(path, earlier)[0] for path in earlier.mix)
                used = Mixture(earlier, sources, before, self.config.train.seed).used
                taken |= dict(zip(earlier.mix, used, strict=True))
        before = tuple(taken.get(path, 0) for path in phase.mix)
        sources = tuple(self._split(path, phase)[0] for path in phase.mix)
        return Mixture(phase, sources, before, self.config.train.seed)
