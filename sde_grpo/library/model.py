"""A folder of `models/`: a posterior, its specification, its card, and the checksums that hold them together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sde_grpo.errors import InputError, require

if TYPE_CHECKING:
    import xarray as xr

POSTERIOR, SPECIFICATION, CARD, SUMS = "posterior.nc", "specification.json", "README.md", "SHA256SUMS"
FORMAT = 1  # of the folder; raised when a reader of today could not make sense of it


@dataclass(frozen=True)
class LearnedModel:
    """A population posterior.

    - `name`: of its folder.
    - `specification`: what it is: data, command, priors, covariates with their units, versions, sampler account.
    - `posterior`: draws, dims (chain, draw, and run or covariate), rewards in the units of the runs.
    - `card`: the text of its README.
    """

    name: str
    specification: dict[str, Any]
    posterior: xr.Dataset
    card: str


def load_model(folder: str | Path) -> LearnedModel:
    """Read a folder of `models/`, every file checked against its SHA-256 first.

    Raises `InputError` where the folder or a file is missing, a checksum does not agree, or the format is newer than
    this version reads.
    """
    folder = Path(folder)
    require(folder.is_dir(), f"{folder} is no folder; give one of models/, such as models/bandit-group-size.")
    contents = {name: _read(folder, name) for name in (SUMS, POSTERIOR, SPECIFICATION, CARD)}
    _verify(folder, contents)
    specification = json.loads(contents[SPECIFICATION])
    require(
        specification.get("format") == FORMAT,
        f"{folder / SPECIFICATION} has format {specification.get('format')!r}; this version reads format {FORMAT}.",
    )
    return LearnedModel(folder.name, specification, _posterior(folder / POSTERIOR), contents[CARD].decode())


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder} lacks {name} ({error.strerror}); a model has {POSTERIOR}, {SPECIFICATION}, {CARD} and {SUMS}. "
            "Fetch the folder again."
        ) from error


def _verify(folder: Path, contents: dict[str, bytes]) -> None:
    """Every file but the list itself must be in the list, with its own sum."""
    lines = contents[SUMS].decode("utf-8", errors="replace").splitlines()
    stated = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name, content in contents.items():
        if name == SUMS:
            continue
        require(name in stated, f"{folder / SUMS} does not list {name}; fetch the folder again.")
        found = hashlib.sha256(content).hexdigest()
        require(
            found == stated[name],
            f"{folder / name} is not the file that was published: its SHA-256 is {found[:12]}..., {SUMS} says "
            f"{stated[name][:12]}... . Fetch the folder again.",
        )


def _posterior(path: Path) -> xr.Dataset:
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as data:
            return data.load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a netCDF file that can be read ({error}). Fetch the folder again.") from error
