"""Fine-tuning: train a backbone together with the head, on images."""

from lbhash.data.images.corrupt import check_images
from lbhash.training.images.augment import Augmentation, augmentation_numbers
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.model import ImageModel
from lbhash.training.images.preprocessing import PixelValues, input_size, resized
from lbhash.training.images.views import embedded_views

__all__ = ["Augmentation", "ImageModel", "ImageRows", "PixelValues", "augmentation_numbers", "check_images"]
__all__ += ["embedded_views", "input_size", "resized"]
