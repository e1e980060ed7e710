"""What the commands print and write."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sde_grpo.errors import InputError

if TYPE_CHECKING:
    from sde_grpo.fit import Fit

_MEANING = {
    "start": "reward at the first step",
    "fixed_point": "plateau",
    "relaxation_time": "time scale of the rise, steps",
    "inertia_ratio": "q; above 0.25 the curve rings",
    "stationary_sd": "wander about the plateau",
    "fast_weight": "share of the rise in the fast mode",
    "curvature": "stiffness per unit of learning rate",
    "prompt_correlation": "how alike completions of a prompt are",
    "noise_sd": "sampling noise of a logged value",
    "dispersion": "sampling noise, in coin flips",
}


def number(x: float) -> str:
    """Three significant digits, without an exponent where one is not needed."""
    if abs(x) >= 1e5 or (x != 0 and abs(x) < 1e-4):
        return f"{x:.2e}"
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def span(d: dict[str, float]) -> str:
    """median [q05, q95]."""
    return f"{number(d['q50'])} [{number(d['q05'])}, {number(d['q95'])}]"


def headline(summary: dict[str, Any]) -> list[str]:
    """The verdict in three to five sentences."""
    run, predicted, explained = summary["run"], summary["forecast"], summary["fit"]
    lines = [f"{run['source']}: {run['points']} points, steps {run['first_step']:g} to {run['last_step']:g}."]
    if not summary["sampler"]["converged"]:
        lines.append("NOT CONVERGED: the numbers below must not be used (see the warnings).")
    if predicted["rise_visible"]:
        rising, falling = predicted["p_still_rising"], predicted["p_still_falling"]
        state = (
            f"still rising (probability {rising:.0%} that more than 1 % of the scale is to come)"
            if rising > 0.5
            else f"still falling (probability {falling:.0%})"
            if falling > 0.5
            else f"levelled off (probability {rising:.0%} of more than 1 % of the scale still to come)"
        )
        lines.append(f"Now at {span(predicted['now'])}; levels off at {span(predicted['plateau'])}: {state}.")
        lines.append(f"95 % of the rise is done by step {span(predicted['steps_to_95'])}.")
    else:
        lines.append("No learning can be seen: the change over the run is not told from the noise.")
    lines.append(f"R^2 {explained['r2']:.2f}, of at most {explained['r2_ceiling']:.2f} that the step noise allows.")
    return lines + summary["verdict"]


def print_report(console: Console, summary: dict[str, Any]) -> None:
    """Verdict, parameter table, warnings."""
    for line in headline(summary):
        console.print(escape(line), highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("parameter", "median", "5 %", "95 %", "meaning"):
        table.add_column(name, justify="left" if name in ("parameter", "meaning") else "right")
    for name, d in summary["parameters"].items():
        table.add_row(name, number(d["q50"]), number(d["q05"]), number(d["q95"]), _MEANING.get(name, ""))
    console.print(table)
    s = summary["sampler"]
    console.print(
        f"{s['engine']}: {s['chains']} chains, {s['draws']} draws each, {s['divergences']} divergences, worst R-hat "
        f"{s['rhat_max']:.3f}, fewest effective draws {min(s['ess_bulk_min'], s['ess_tail_min']):.0f}; "
        f"{s['seconds']:.0f} s.",
        highlight=False,
    )
    for warning in summary["warnings"]:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)


def check_folder(folder: Path, force: bool) -> None:
    """Refuse, before any work is done, a folder that exists or cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; name a folder.")
    if folder.exists() and not force:
        raise InputError(f"--out {folder} exists; add --force to replace its fit, or name another folder.")
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        raise InputError(f"--out {folder} cannot be written, for {existing} is a file; name another folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(
            f"--out {folder} cannot be written: no permission to write in {existing}; name another folder."
        )


def _nearest_existing(path: Path) -> Path:
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` or above it, whose files move into it only when all are written."""
    stage = Path(tempfile.mkdtemp(dir=_nearest_existing(folder.parent), prefix=f".{folder.name}-"))
    try:
        yield stage
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(stage.iterdir()):  # summary.json last: where it is, the rest is
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def files_of(fit: Fit, summary: dict[str, Any]) -> dict[str, bytes]:
    """What is written of a fit: fit.nc, summary.json, bands.png, checks.png."""
    from sde_grpo.plots import plot_bands, plot_checks

    files = {"summary.json": to_json(summary).encode()}
    try:
        with tempfile.TemporaryDirectory(prefix="sde-grpo-") as place:
            fit.save(Path(place) / "fit.nc")
            files["fit.nc"] = (Path(place) / "fit.nc").read_bytes()
    except OSError as error:
        raise InputError(
            f"The folder for temporary files cannot be written ({error.strerror}); set TMPDIR to one with room."
        ) from error
    for name, plot in (("bands.png", plot_bands), ("checks.png", plot_checks)):
        picture = io.BytesIO()
        plot(fit).savefig(picture, dpi=130)
        files[name] = picture.getvalue()
    return files


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """All of them or, on an error, none."""
    try:
        with _staged(folder) as stage:
            for name, content in files.items():
                (stage / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written ({error.strerror}); name another folder.") from error


def to_json(summary: dict[str, Any]) -> str:
    """Strict JSON: NaN is refused rather than written."""
    return json.dumps(summary, indent=2, allow_nan=False) + "\n"
