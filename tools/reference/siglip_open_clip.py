#!/usr/bin/env python3
"""A SigLIP checkpoint of the Hugging Face layout under OpenCLIP's names, with a timm tower: the same weights, and
the same answers beside them. Only renames, joins and splits along the first dimension; needs nothing but Python.

  python3 tools/reference/siglip_open_clip.py tests/golden/siglip tests/golden/open_clip-siglip
"""

import json
import pathlib
import shutil
import struct
import sys

TRUNK = {
    "embeddings.patch_embedding": "patch_embed.proj", "post_layernorm": "norm",
    "head.attention.out_proj": "attn_pool.proj", "head.layernorm": "attn_pool.norm",
    "head.mlp.fc1": "attn_pool.mlp.fc1", "head.mlp.fc2": "attn_pool.mlp.fc2",
}
TRUNK_BLOCK = {"layer_norm1": "norm1", "layer_norm2": "norm2", "self_attn.out_proj": "attn.proj", "mlp.fc1": "mlp.fc1",
               "mlp.fc2": "mlp.fc2"}
TEXT = {"final_layer_norm": "ln_final", "head": "text_projection", "embeddings.token_embedding": "token_embedding"}
TEXT_BLOCK = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj",
              "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write(path, tensors):
    header, body = {}, b""
    for name, (shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + body)


def join(parts):
    return [sum(shape[0] for shape, _ in parts)] + parts[0][0][1:], b"".join(data for _, data in parts)


def cut(tensor, begin, end):
    shape, data = tensor
    row = len(data) // shape[0]
    return [end - begin] + shape[1:], data[begin * row:end * row]


def renamed(tensors):
    result = {}
    for name, (shape, data) in tensors.items():
        stem, _, kind = name.rpartition(".")
        if name in ("logit_scale", "logit_bias"):
            result[name] = ([], data)
        elif name == "vision_model.embeddings.position_embedding.weight":
            result["visual.trunk.pos_embed"] = ([1] + shape, data)
        elif name == "text_model.embeddings.position_embedding.weight":
            result["text.positional_embedding"] = (shape, data)
        elif name == "vision_model.head.probe":
            result["visual.trunk.attn_pool.latent"] = (shape, data)
        elif "head.attention.in_proj_" in name:
            part = name.rpartition("_")[2]
            width = shape[0] // 3
            result[f"visual.trunk.attn_pool.q.{part}"] = cut((shape, data), 0, width)
            result[f"visual.trunk.attn_pool.kv.{part}"] = cut((shape, data), width, shape[0])
        elif stem.endswith(".q_proj"):
            tower, _, rest = stem.partition(".encoder.layers.")
            layer = rest.split(".")[0]
            parts = join([tensors[f"{stem[:-6]}{which}_proj.{kind}"] for which in "qkv"])
            result[f"visual.trunk.blocks.{layer}.attn.qkv.{kind}" if tower == "vision_model" else
                   f"text.transformer.resblocks.{layer}.attn.in_proj_{kind}"] = parts
        elif stem.endswith((".k_proj", ".v_proj")):
            continue
        else:
            tower, _, rest = stem.partition(".")
            whole, block = (TRUNK, TRUNK_BLOCK) if tower == "vision_model" else (TEXT, TEXT_BLOCK)
            prefix = "visual.trunk." if tower == "vision_model" else "text."
            if rest.startswith("encoder.layers."):
                _, _, layer, part = rest.split(".", 3)
                blocks = "blocks." if tower == "vision_model" else "transformer.resblocks."
                result[f"{prefix}{blocks}{layer}.{block[part]}.{kind}"] = (shape, data)
            else:
                result[f"{prefix}{whole[rest]}.{kind}"] = (shape, data)
    return result


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    config = json.loads((source / "config.json").read_text())
    vision, text = config["vision_config"], config["text_config"]
    target.mkdir(parents=True, exist_ok=True)
    write(target / "open_clip_model.safetensors", renamed(read(source / "model.safetensors")))
    shutil.copy(source / "io.safetensors", target / "io.safetensors")
    (target / "open_clip_config.json").write_text(json.dumps({
        "model_cfg": {
            "embed_dim": vision["hidden_size"], "init_logit_bias": -10, "custom_text": True,
            # A name whose towers compute GELU by tanh, as transformers does.
            "vision_cfg": {"image_size": vision["image_size"], "timm_model_name": "vit_so400m_patch16_siglip_64",
                           "timm_model_pretrained": False, "timm_pool": "map", "timm_proj": "none",
                           "head_width": vision["hidden_size"] // vision["num_attention_heads"]},
            "text_cfg": {"context_length": text["max_position_embeddings"], "vocab_size": text["vocab_size"],
                         "width": text["hidden_size"], "heads": text["num_attention_heads"],
                         "layers": text["num_hidden_layers"],
                         "mlp_ratio": text["intermediate_size"] / text["hidden_size"], "no_causal_mask": True,
                         "proj_bias": True, "pool_type": "last", "norm_kwargs": {"eps": 1e-6},
                         "act_kwargs": {"approximate": "tanh"}}},
        "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "interpolation": "bicubic",
                           "resize_mode": "squash"},
    }, indent=2) + "\n")


if __name__ == "__main__":
    main()
