"""A run on a W&B server, through its public interface."""

from __future__ import annotations

import re
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.readers.base import Log, RawConfig
from sde_grpo.runs.readers.extras import import_extra
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import TableBuilder

# pathlib makes one slash of two. Pages of a run go on: /overview, ?nw=...
ADDRESS = re.compile(
    r"(?:wandb:/*|https?:/{1,2}(?:[\w.-]+\.)?wandb\.ai/)([^/?#]+)/([^/?#]+)/(?:runs/)?([^/?#]+)(?:[/?#].*)?"
)
SCHEMES = ("wandb:", "http:", "https:")
ROWS_AT_A_TIME = 1000


def is_address(path: str) -> bool:
    """Whether this is the address of a run, such as ``wandb:entity/project/run``, and not a path."""
    return path.startswith(SCHEMES)


def read_wandb(address: str, wanted: frozenset[str] = frozenset(), client: Any = None) -> Log:
    """Every row of a run's history, none left out as in charts, and its configuration.

    `address` is ``wandb:entity/project/run`` (run: the id in the page's address) or the address of its page; `client`
    a ``wandb.Api``, made by default. Raises `InputError` without the extra, for a wrong address, and for anything that
    the server refuses.
    """
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        raise InputError(
            f"{safe(address)} is not the address of a W&B run; write wandb:entity/project/run, or the address of the "
            "run's page, https://wandb.ai/entity/project/runs/run."
        )
    path = "/".join(parts.groups())
    if client is None:
        client = _client(address)
    builder = TableBuilder(wanted)
    try:
        run = client.run(path)
        config = {str(key): value for key, value in dict(run.config).items() if not str(key).startswith("_")}
        for row in run.scan_history(page_size=ROWS_AT_A_TIME):
            builder.add(len(builder) + 1, row)
    except InputError:
        raise
    except Exception as error:  # the client's errors come from several packages, the network's among them
        raise _refused(address, error) from error
    require(len(builder) > 0, f"{safe(address)} holds no rows; has the run logged anything yet?")
    configs = (RawConfig(config, "W&B config"),) if config else ()
    return Log(builder.table(), "row", format="W&B run", configs=configs)


def _client(address: str) -> Any:
    wandb = import_extra("wandb", "wandb", f"Reading {safe(address)}")
    try:
        return wandb.Api()
    except Exception as error:
        raise _refused(address, error) from error


def _refused(address: str, error: Exception) -> InputError:
    return InputError(
        f"{safe(address)}: W&B did not give the run ({safe(str(error) or type(error).__name__, 200)}). Check the "
        "address, the network, and that you are logged in (wandb login)."
    )
