"""Training: the paper's Algorithm 1 with Lightning, on one process or many, with checkpoints that survive a kill."""

from lbhash.training.checkpoints import has_checkpoint
from lbhash.training.distributed import is_main_process
from lbhash.training.fit import Trained, train
from lbhash.training.machine import PRECISIONS, Precision, check_machine, cpu_settings, draw_from
from lbhash.training.monitor import MONITORS, Monitor
from lbhash.training.rows import EmbeddingRows, ShuffledBatches, TrainingRows
from lbhash.training.schedule import SCHEDULES, Schedule

__all__ = ["MONITORS", "PRECISIONS", "SCHEDULES", "EmbeddingRows", "Monitor", "Precision", "Schedule"]
__all__ += ["ShuffledBatches", "Trained", "TrainingRows", "check_machine", "cpu_settings", "draw_from"]
__all__ += ["has_checkpoint", "is_main_process", "train"]
