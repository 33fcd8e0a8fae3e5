"""The tree of exceptions a user of the trainer can meet.

ZayaError                 anything whose message is meant for a person; the command line prints it without a traceback
├── ConfigError           a config says something impossible; holds one problem per field
├── DataError             text or token files cannot be read, or hold nothing to train on
├── CheckpointError       a checkpoint is missing, damaged, or does not fit the config
└── TrainingError         training cannot go on: a loss that is not finite, no memory
    └── PeerLost          another process of the run ended; a new start from the last checkpoint mends it
"""

from dataclasses import dataclass


class ZayaError(Exception):
    """Say what is wrong and what would be right, in one sentence."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a config: the dotted path of the field, and a sentence with the remedy."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(ZayaError):
    """A config that cannot be honoured; `problems` lists every field at fault."""

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class DataError(ZayaError):
    """Text or tokens that cannot be trained on."""

    exit_code = 3


class CheckpointError(ZayaError):
    """A checkpoint that cannot be written, read or trusted."""

    exit_code = 4


class TrainingError(ZayaError):
    """A run that cannot go on."""

    exit_code = 5


class PeerLost(TrainingError):
    """A run whose other processes are gone; whoever watches it may start it again."""
