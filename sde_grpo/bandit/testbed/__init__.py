"""The softmax bandit as an exact testbed of GRPO: two or K arms, many prompts, vectorised over replicates in JAX."""

from sde_grpo.bandit.testbed.bandit import Bandit, softmax_table, two_armed
from sde_grpo.bandit.testbed.optimizers import Adam, Momentum
from sde_grpo.bandit.testbed.train import History, train
from sde_grpo.bandit.testbed.training import Training

__all__ = ["Adam", "Bandit", "History", "Momentum", "Training", "softmax_table", "train", "two_armed"]
