"""One netCDF file per fit, written beside itself and moved into place: a killed run leaves the old file whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sde_grpo.errors import InputError
from sde_grpo.files import write_atomically

if TYPE_CHECKING:
    import xarray as xr


def save_tree(tree: xr.DataTree, path: Path) -> None:
    """Write a `DataTree` to netCDF, compressed."""
    encoding = {
        group.path: {str(n): {"zlib": True, "complevel": 4} for n, v in group.data_vars.items() if v.ndim > 0}
        for group in tree.subtree
    }
    write_atomically(path, lambda p: tree.to_netcdf(p, engine="h5netcdf", encoding=encoding))


def load_tree(path: Path) -> xr.DataTree:
    """Read a `DataTree` whole; raises `InputError` where the file is missing or is no fit of ours."""
    import xarray as xr

    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {problem}. Give the fit.nc that `sde-grpo fit LOG --out DIR` wrote.")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            loaded = tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a netCDF file that can be read ({error}). Fit the log again.") from error
    if "posterior" not in loaded.children or "sde_grpo" not in loaded.attrs:
        raise InputError(f"{path} is a netCDF file, but not a fit of sde_grpo. Fit the log with `sde-grpo fit`.")
    return loaded
