"""One curvature across learning rates, momenta and refresh intervals: shared, tested, used to predict."""

from sde_grpo.transfer.design import Setting
from sde_grpo.transfer.left_out import LeftOut
from sde_grpo.transfer.predict import Prediction, parse_setting
from sde_grpo.transfer.transfer import Transfer, transfer_runs

__all__ = ["LeftOut", "Prediction", "Setting", "Transfer", "parse_setting", "transfer_runs"]
