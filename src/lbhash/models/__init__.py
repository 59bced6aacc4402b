"""The networks: hash head, surrogate, vision backbones, and export to ONNX."""
