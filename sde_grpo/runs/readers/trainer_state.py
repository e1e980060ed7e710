"""``trainer_state.json`` of Hugging Face's Trainer, which TRL, unsloth and others write."""

from __future__ import annotations

from sde_grpo.errors import require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_lines import first_lines, is_object
from sde_grpo.runs.readers.json_text import HISTORY, parse_document, require_object
from sde_grpo.runs.source import Source
from sde_grpo.runs.table import TableBuilder


class TrainerState:
    """One JSON object with a list of rows under ``log_history``.

    Its steps count optimizer updates. With ``logging_steps`` above 1, a row averages what was appended since the row
    before it (TRL, ``GRPOTrainer.log``).
    """

    format = "trainer_state.json"

    def recognises(self, source: Source) -> bool:
        head = source.head.lstrip()
        if not head.startswith(b"{") or source.name.startswith("trainer_state.json"):
            return head.startswith(b"{")
        # ms-swift ends its JSON Lines with such an object.
        return b'"log_history"' in head and not (len(lines := first_lines(source, 2)) == 2 and is_object(lines[0]))

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        state = parse_document(source.text(), source.name)
        require(
            isinstance(state, dict) and isinstance(state.get(HISTORY), list),
            f"{source.name}: {HISTORY} is not a list of rows at the top level; name the trainer_state.json of the run "
            "itself.",
        )
        require(
            bool(state[HISTORY]),
            f"{source.name}: {HISTORY} is empty; take the trainer_state.json of a later checkpoint.",
        )
        row_name = f"entry of {HISTORY}"
        builder = TableBuilder(wanted)
        for number, item in enumerate(state[HISTORY], start=1):
            require_object(item, source.name, row_name, number)
            builder.add(number, item)
        logging_steps = number_or_none(state.get("logging_steps"))
        return Log(
            builder.table(),
            row_name=row_name,
            step_unit="optimizer",
            unit_source="log (trainer_state.json counts optimizer steps)",
            logging_steps=logging_steps if logging_steps and logging_steps >= 1 else None,
        )
