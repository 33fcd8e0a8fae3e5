"""Text to ids and back: bytes as they are, or any `tokenizer.json`."""

from pathlib import Path
from typing import Protocol

from zaya_model.errors import DataError


class Tokenizer(Protocol):
    """What the trainer needs of a tokenizer; `end` is the id put after each document."""

    name: str
    vocab_size: int
    end: int

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without the end mark."""

    def decode(self, ids: list[int]) -> str:
        """Text of ids; what is no character becomes the replacement character."""


class ByteTokenizer:
    """One id a byte of UTF-8, and 256 for the end of a document."""

    name, vocab_size, end = "bytes", 257, 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, ids: list[int]) -> str:
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
        self.name = path
        size = self._library.get_vocab_size()
        found = (self._library.token_to_id(mark) for mark in ("<|endoftext|>", "</s>", "<eos>", "<end_of_text>"))
        end = next((mark for mark in found if mark is not None), None)
        self.end = size if end is None else end
        self.vocab_size = max(size, self.end + 1)

    def encode(self, text: str) -> list[int]:
        return self._library.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        return self._library.decode([i for i in ids if i != self.end])


def load_tokenizer(name: str) -> Tokenizer:
    """`bytes`, or the path of a tokenizer.json. Raises DataError."""
    if name == "bytes":
        return ByteTokenizer()
    if not Path(name).is_file():
        raise DataError(f"There is no tokenizer {name}: write `bytes` or the path of a tokenizer.json.")
    return FileTokenizer(name)
