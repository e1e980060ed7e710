"""``trainer_state.json`` of Hugging Face's Trainer, which TRL, unsloth and others write."""

from __future__ import annotations

from sde_grpo.errors import require
from sde_grpo.runs.cells import number_or_none
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.json_text import flat_rows, parse_document

KEY = "log_history"


class TrainerState:
    """One JSON object with a list of rows under ``log_history``.

    Its steps count optimizer updates. With ``logging_steps`` above 1, a row averages what was appended since the row
    before it (TRL, ``GRPOTrainer.log``).
    """

    format = "trainer_state.json"

    def recognises(self, text: str) -> bool:
        return text.lstrip().startswith("{") and f'"{KEY}"' in text

    def read(self, text: str, source: str) -> Log:
        state = parse_document(text, source)
        require(
            isinstance(state, dict) and isinstance(state.get(KEY), list),
            f"{source}: {KEY} is not a list of rows at the top level; name the trainer_state.json of the run itself.",
        )
        require(bool(state[KEY]), f"{source}: {KEY} is empty; take the trainer_state.json of a later checkpoint.")
        logging_steps = number_or_none(state.get("logging_steps"))
        return Log(
            rows=flat_rows(enumerate(state[KEY], start=1), source, f"entry of {KEY}"),
            row_name=f"entry of {KEY}",
            step_unit="optimizer",
            unit_source="log (trainer_state.json counts optimizer steps)",
            logging_steps=logging_steps if logging_steps and logging_steps >= 1 else None,
        )
