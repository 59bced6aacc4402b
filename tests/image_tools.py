"""Small images and small backbones for the tests of fine-tuning."""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
from PIL import Image

SIDE = 16

PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": SIDE, "width": SIDE},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.6],
    "image_std": [0.5, 0.25, 0.4],
}

TOKENS = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": SIDE,
    "patch_size": 4,
}


def striped(label, rng):
    """Noisy stripes in the direction of their class, of four: no color tells them apart, and no pixel does."""
    y, x = np.mgrid[:SIDE, :SIDE]
    along = (x, y, x + y, x - y)[label]
    wave = 60 * np.sin(along * 2 * np.pi / 5 + rng.uniform(0, 2 * np.pi))
    return Image.fromarray(np.clip(128 + wave[..., None] + rng.normal(0, 25, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8))


def stripes(count, seed=0):
    """Images of four classes in turn, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    return [striped(label, rng) for label in labels], labels


def stored(image, kind="PNG"):
    """An image as the bytes of a file."""
    held = BytesIO()
    image.save(held, kind)
    return held.getvalue()


def write_stripes(root, count, seed=0):
    """A folder of images, a folder a class."""
    for at, (image, label) in enumerate(zip(*stripes(count, seed), strict=True)):
        folder = root / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at:03}.png").write_bytes(stored(image))
    return root


def model_of(kind):
    """A small random model of a family."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    text = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text |= {"vocab_size": 9, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    return {
        "resnet": lambda: t.ResNetModel(t.ResNetConfig(**stages)),
        "mobilenet_v1": lambda: t.MobileNetV1Model(t.MobileNetV1Config(depth_multiplier=0.1, min_depth=4)),
        "mobilenet_v2": lambda: t.MobileNetV2Model(t.MobileNetV2Config(depth_multiplier=0.1)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**TOKENS)),
        "vit without a pooler": lambda: t.ViTForImageClassification(t.ViTConfig(**TOKENS)),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(**TOKENS)),
        "convnext": lambda: t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2)),
        "poolformer": lambda: t.PoolFormerModel(
            t.PoolFormerConfig(
                hidden_sizes=[8, 12],
                depths=[1, 1],
                num_encoder_blocks=2,
                patch_sizes=[7, 3],
                strides=[4, 2],
                padding=[2, 1],
            )
        ),
        "clip": lambda: t.CLIPModel(
            t.CLIPConfig(vision_config=TOKENS | {"projection_dim": 6}, text_config=text, projection_dim=6)
        ),
        "siglip": lambda: t.SiglipModel(t.SiglipConfig(vision_config=TOKENS, text_config=text)),
        "levit": lambda: t.LevitModel(
            t.LevitConfig(
                image_size=64,
                hidden_sizes=[16, 16, 16],
                num_attention_heads=[2, 2, 2],
                depths=[1, 1, 1],
                key_dim=[4, 4, 4],
            )
        ),
    }[kind]().eval()


def write_small_resnet(folder):
    """A folder of transformers with a small random ResNet, which takes images as large as they are."""
    import torch
    import transformers as t

    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        t.ResNetModel(config).save_pretrained(folder)
    processor = {"image_processor_type": "ConvNextImageProcessor", "do_resize": False, "do_rescale": True}
    processor |= {"rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def write_backbone(folder, kind="resnet", **processor):
    """A folder of transformers with a small random model."""
    model_of(kind).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | processor))
    return folder
