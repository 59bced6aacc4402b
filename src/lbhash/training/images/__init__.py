"""Fine-tuning: a backbone learns together with the head, from pictures."""

from lbhash.training.images.augment import Augmentation, draws_of
from lbhash.training.images.dataset import PictureRows
from lbhash.training.images.finetune import FineTuning, check_pictures, embed_pictures, encode_pictures, fine_tuning
from lbhash.training.images.model import BATCH_NORMS, BatchNorm, ImageModel, check_batch_norm
from lbhash.training.images.preprocessing import PixelValues, picture_size, resized

__all__ = ["BATCH_NORMS", "Augmentation", "BatchNorm", "FineTuning", "ImageModel", "PictureRows", "PixelValues"]
__all__ += ["check_batch_norm", "check_pictures", "draws_of", "embed_pictures", "encode_pictures", "fine_tuning"]
__all__ += ["picture_size", "resized"]
