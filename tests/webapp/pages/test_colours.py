"""Whether every text can be read: the contrast that WCAG's level AA asks for, light and dark."""

import re
from pathlib import Path

import pytest

import webapp

TOKENS = (Path(webapp.__file__).parent / "static/css/tokens.css").read_text()
GROUNDS = {
    "ink": ("paper", "sheet", "sunk"), "ink-2": ("paper", "sheet", "sunk"), "ink-3": ("paper", "sheet", "sunk"),
    "accent": ("paper", "sheet", "accent-wash"), "accent-ink": ("accent",), "good": ("good-wash",),
    "warn": ("warn-wash", "sheet"), "bad": ("bad-wash", "sheet"), "busy": ("busy-wash",),
}  # fmt: skip


def colours(theme: str) -> dict[str, str]:
    light, dark = TOKENS.split(':root[data-theme="dark"]')
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if theme == "light" else dark))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_every_ground_it_is_on(theme: str) -> None:
    colour = colours(theme)
    pairs = [(ink, ground) for ink, grounds in GROUNDS.items() for ground in grounds]
    faint = [pair for pair in pairs if contrast(colour[pair[0]], colour[pair[1]]) < 4.5]
    assert faint == []
