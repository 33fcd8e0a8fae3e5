"""Text to ids and back: bytes as they are, any `tokenizer.json`, or a byte-level BPE trained here."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from zaya_model.errors import DataError

END = "<|endoftext|>"
_ENDS = (END, "</s>", "<eos>", "<end_of_text>", "<|end_of_text|>")


class Tokenizer(Protocol):
    """What the trainer needs of a tokenizer; `end` is the id put after each document."""

    vocab_size: int
    end: int

    def encode(self, text: str) -> np.ndarray:
        """Ids of a text, without the end mark."""

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; what is no character becomes the replacement character."""


class ByteTokenizer:
    """One id a byte of UTF-8, and 256 for the end of a document."""

    vocab_size, end = 257, 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-8", "replace"), np.uint8)

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")


class FileTokenizer:
    """A `tokenizer.json` of the tokenizers library; its end mark is found by the usual names, else added at the end."""

    def __init__(self, path: str) -> None:
        # A heavy library that byte runs never need.
        from tokenizers import Tokenizer as Library

        try:
            self._library = Library.from_file(path)
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"{path} is not a tokenizer.json that can be read: {error}") from error
        # Padding and cutting belong to the library's other users: here every token counts.
        self._library.no_padding()
        self._library.no_truncation()
        size = max(self._library.get_vocab().values(), default=-1) + 1
        found = (self._library.token_to_id(mark) for mark in _ENDS)
        end = next((mark for mark in found if mark is not None), None)
        self.end = size if end is None else end
        self.vocab_size = max(size, self.end + 1)

    def encode(self, text: str) -> np.ndarray:
        clean = text.encode("utf-8", "replace").decode()
        return np.array(self._library.encode(clean, add_special_tokens=False).ids, np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        return self._library.decode([i for i in ids if i != self.end])


def load_tokenizer(name: str) -> Tokenizer:
    """`bytes`, or the path of a tokenizer.json. Raises DataError."""
    if name == "bytes":
        return ByteTokenizer()
    if not Path(name).is_file():
        raise DataError(f"There is no tokenizer {name}: write `bytes` or the path of a tokenizer.json.")
    return FileTokenizer(name)


def train_tokenizer(texts: Iterable[str], vocab_size: int, path: Path) -> str:
    """Train a byte-level BPE and write it; returns its path. Raises DataError when there is nothing to learn from."""
    # A heavy library that byte runs never need.
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    if vocab_size < 257:
        raise DataError(f"A byte-level vocabulary needs at least 257 entries, not {vocab_size}.")
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    counted = _Counted(texts)
    library.train_from_iterator(iter(counted), trainer)
    if not counted.characters:
        raise DataError("There is no text to train a tokenizer on.")
    library.save(str(path))
    return str(path)


class _Counted:
    """Texts, and how many characters went by."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts, self.characters = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.characters += len(text)
            yield text
