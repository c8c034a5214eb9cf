"""Say English words by a pretrained network: pip install --no-deps g2p-en; python examples/pretrained.py

The wheel of g2p-en (Park and Kim 2018) holds the arrays of a sequence-to-sequence network that was trained in
another framework: letters in, sounds out. They load into modules of the same structure as they are, because
names, shapes and the order of gates are PyTorch's. The package comes with its own inference, in plain NumPy:
the oracle.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import shardwise as sw
from shardwise import nn

WORDS = ["shardwise", "activationist", "numpy", "gradient", "backpropagation", "tensor", "bicycle"]
NAMES = {  # of the arrays in the wheel, and of the parameters that they are
    "enc_emb": "letters.weight", "enc_w_ih": "encoder.weight_ih_l0", "enc_w_hh": "encoder.weight_hh_l0",
    "enc_b_ih": "encoder.bias_ih_l0", "enc_b_hh": "encoder.bias_hh_l0", "dec_emb": "sounds.weight",
    "dec_w_ih": "decoder.weight_ih", "dec_w_hh": "decoder.weight_hh", "dec_b_ih": "decoder.bias_ih",
    "dec_b_hh": "decoder.bias_hh", "fc_w": "head.weight", "fc_b": "head.bias",
}  # fmt: skip
UNKNOWN, END_OF_WORD, START, STOP = 1, 2, 2, 3


class Speaker(nn.Module):
    """Reads a word's letters with a GRU, and says its sounds one after the other with another."""

    def __init__(self, letters: int, sounds: int, dim: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, dim)
        self.encoder = nn.GRU(dim, dim)
        self.sounds = nn.Embedding(sounds, dim)
        self.decoder = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, sounds)

    def read(self, words: list[str]) -> sw.Tensor:
        """Return the state behind each word's last letter, shape (words, dim)."""
        spelt = [sw.tensor([*map(letter, word), END_OF_WORD]) for word in words]
        packed = nn.pack_sequence([self.letters(one) for one in spelt], enforce_sorted=False)
        return self.encoder(packed)[1][0]

    def forward(self, words: list[str], most: int = 20) -> list[list[int]]:
        """Return the likeliest sounds of all words, which are worked on side by side."""
        h, said = self.read(words), sw.tensor([START] * len(words))
        steps = []
        for _ in range(most):
            h = self.decoder(self.sounds(said), h)
            said = self.head(h).argmax(-1)
            steps.append(said.tolist())
        rows = [list(row) for row in zip(*steps, strict=True)]
        return [row[: row.index(STOP)] if STOP in row else row for row in rows]


def letter(character: str) -> int:
    """Return the number of a letter."""
    return 3 + ord(character) - ord("a") if "a" <= character <= "z" else UNKNOWN


def folder() -> Path:
    """Return where g2p-en is installed, without importing it."""
    spec = importlib.util.find_spec("g2p_en")
    if spec is None or spec.origin is None:
        sys.exit("This needs the weights of g2p-en: pip install --no-deps g2p-en")
    return Path(spec.origin).parent


def own_inference(package: Path) -> Any:
    """Return the package's own class, unchanged, over an empty dictionary, so that it works every word out.

    It is taken out of its module: importing that would import nltk, and download its dictionaries.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an escape sequence of its time
        module = ast.parse((package / "g2p.py").read_text(encoding="utf-8"))
    module.body = [node for node in module.body if isinstance(node, ast.ClassDef)]
    names: dict[str, Any] = {"np": np, "os": os, "dirname": str(package)}
    names |= {"cmudict": SimpleNamespace(dict=dict), "construct_homograph_dictionary": dict}
    exec(compile(module, "g2p.py", "exec"), names)
    return names["G2p"]()


def load(package: Path) -> Speaker:
    """Return the model with the pretrained weights."""
    with np.load(package / "checkpoint20.npz") as file:
        state = {NAMES[name]: file[name] for name in file.files}
    model = Speaker(
        *(len(state[f"{name}.weight"]) for name in ("letters", "sounds")), dim=state["head.weight"].shape[1]
    )
    model.load_state_dict(state)
    return model.eval()


def main(argv: list[str] | None = None) -> int:
    """Print each word with its sounds, and return how many are as the package says them."""
    parser = argparse.ArgumentParser(description="Say English words by a pretrained network.")
    parser.add_argument("words", nargs="*", default=WORDS)
    words = [word.lower() for word in parser.parse_args(argv).words]
    package = folder()
    model, oracle = load(package), own_inference(package)
    with sw.no_grad():
        states, said = model.read(words), model(words)
    agreed = 0
    for word, state, sounds in zip(words, states.numpy(), said, strict=True):
        spoken = [oracle.phonemes[sound] for sound in sounds]
        agreed += spoken == oracle.predict(word)
        read = oracle.gru(
            oracle.encode(word),
            len(word) + 1,
            oracle.enc_w_ih,
            oracle.enc_w_hh,
            oracle.enc_b_ih,
            oracle.enc_b_hh,
        )
        print(f"{word:20} {' '.join(spoken):45} state within {np.abs(read[0, -1] - state).max():.0e}")
    print(f"{agreed} of {len(words)} words said as g2p-en says them")
    return agreed


if __name__ == "__main__":
    main()
