"""Runs inside JSON documents: an object that holds a whole reward curve, and what stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.roles import role_of

REWARD_NAME = re.compile(r"(^|_)(rewards?|scores?)(_|$)")
NOT_A_CURVE = re.compile(r"std|eval|valid|test|best|weights|func")
RUN_NAMES = ("run_name", "name", "label", "tag", "run", "experiment", "run_id", "id")
DEEPEST = 8

Cells = dict[str, Any]


def curve_of(item: Any) -> tuple[str, list[Cells]] | None:
    """The key and the rows of the reward curve in an object, or None where it holds none.

    A curve is a list of rows, of (step, reward) pairs, or of rewards, the last with further lists of the same length.
    """
    if not isinstance(item, Mapping):
        return None
    lists = {key: value for key, value in item.items() if isinstance(value, list) and len(value) > 1}
    for key, value in lists.items():
        if all(isinstance(row, dict) for row in value) and _is_reward_row(value[0]):
            return key, value
    for key, value in lists.items():
        if not REWARD_NAME.search(key.lower()) or NOT_A_CURVE.search(key.lower()):
            continue
        if all(isinstance(pair, list) and len(pair) == 2 and _all_numbers(pair) for pair in value):
            return key, [{"step": pair[0], key: pair[1]} for pair in value]
        if _all_numbers(value):
            beside = {name: other for name, other in lists.items() if len(other) == len(value) and _all_numbers(other)}
            if not any((role := role_of(name)) is not None and role.name == "step" for name in beside):
                beside["step"] = list(range(1, len(value) + 1))
            return key, [{name: other[k] for name, other in beside.items()} for k in range(len(value))]
    return None


def runs_in(document: Any) -> Iterator[tuple[Cells, list[Cells]]]:
    """Every run of a document: what is said of it, with a ``run`` cell that names it, and its rows."""
    seen: set[str] = set()
    pending: list[tuple[str, Any, Cells, int]] = [("", document, {}, 0)]
    while pending:
        path, node, inherited, depth = pending.pop()
        if isinstance(node, list):
            if depth < DEEPEST:
                pending += [(f"{path}[{k}]", item, inherited, depth + 1) for k, item in reversed(list(enumerate(node)))]
            continue
        if not isinstance(node, dict):
            continue
        said = inherited | _scalars(node)
        curve = curve_of(node)
        if curve is not None:
            key, rows = curve
            name = next((str(node[n]) for n in RUN_NAMES if isinstance(node.get(n), (str, int))), path or key)
            signature = f"{name}:{[_rewards(row) for row in rows]}"
            if signature not in seen:
                seen.add(signature)
                yield said | {"run": name}, rows
        elif depth < DEEPEST:
            pending += [
                (f"{path}.{key}" if path else str(key), value, said, depth + 1)
                for key, value in reversed(list(node.items()))
                if isinstance(value, (dict, list))
            ]


def _rewards(row: Cells) -> list[Any]:
    return [value for name, value in row.items() if (role := role_of(name)) is not None and role.name == "reward"]


def _scalars(node: Mapping[str, Any]) -> Cells:
    """The plain values of an object, and of the objects in it that describe it (metadata, config)."""
    said: Cells = {}
    for key, value in node.items():
        if isinstance(value, dict) and re.fullmatch(r"metadata|config|args|settings|params|hyperparameters", str(key)):
            said |= _scalars(value)
        elif value is None or isinstance(value, (str, int, float)):
            said[str(key)] = value
    return said


def _is_reward_row(row: Mapping[str, Any]) -> bool:
    return any(number_or_none(value) is not None for value in _rewards(dict(row)))


def _all_numbers(values: list[Any]) -> bool:
    return all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)
