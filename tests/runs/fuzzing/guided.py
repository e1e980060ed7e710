"""The target of atheris: the first byte chooses the format, the others are the content before packing."""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

atheris = import_module("atheris")

with atheris.instrument_imports(include=["sde_grpo.runs"]):
    from tests.runs.fuzzing.case import attempt
    from tests.runs.fuzzing.seeds import seeds


def main() -> None:
    chosen = seeds()
    with tempfile.TemporaryDirectory() as folder:

        def one(content: bytes) -> None:
            seed = chosen[content[0] % len(chosen)] if content else chosen[0]
            attempt(Path(folder), seed, seed.wrap(content[1:]))

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
