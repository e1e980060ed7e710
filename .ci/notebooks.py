"""Execute every notebook in notebooks/ in a temporary copy of the tree; stop at the first that fails."""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out")
CELL_TIMEOUT_S = 900


def execute(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources=resources).execute()


def main() -> int:
    names = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    if not names:
        print("no notebooks")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "tree"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        for name in names:
            start = time.perf_counter()
            try:
                execute(copy / "notebooks" / name)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                print(f"{name}: failed after {time.perf_counter() - start:.1f} s\n{error}", file=sys.stderr)
                return 1
            print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
