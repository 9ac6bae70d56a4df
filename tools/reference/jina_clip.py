#!/usr/bin/env python3
"""A tiny random Jina-CLIP v1 in plain PyTorch, after its published description, and its answers.

Koukounas et al. 2024, "Jina CLIP: Your CLIP Model Is Also Your Text Retriever" (arXiv 2405.20204). Pictures: EVA-02
(Fang et al. 2023, arXiv 2303.11331) with 2-D rotary positions, SwiGLU and a norm within each part. Texts: JinaBERT
(Guenther et al. 2023, arXiv 2310.19923), a post-norm BERT whose positions are ALiBi's biases on both sides and whose
MLPs are gated by GELU; the mean over a text's own tokens is its embedding. Config fields and tensor names are those of
the published checkpoint and of the code it names. Needs torch and safetensors:

  python3 tools/reference/jina_clip.py --out tests/golden/jina-clip

With --fused a checkpoint of the variants the same fields allow: one joint query-key-value, plain MLPs, no inner norms.
"""

import argparse
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

WIDTH, LAYERS, HEAD, MLP_RATIO, IMAGE, PATCH, TRAINED_GRID = 48, 3, 16, 2.6667, 32, 8, 16
TEXT_LAYERS, TEXT_HEADS, TEXT_MLP, VOCABULARY, TOKENS = 2, 6, 80, 110, 14
VISION_EPS, TEXT_EPS = 1e-6, 1e-12


def rotary(grid):
    """cos and sin for every place of the grid, [places, HEAD]: half of a head turns with the row, half with the column,
    pairs of neighbouring numbers by one angle."""
    half = HEAD // 2
    frequencies = 10000.0 ** (-torch.arange(0, half, 2).float() / half)
    places = torch.arange(grid).float() / grid * TRAINED_GRID
    angles = torch.repeat_interleave(places[:, None] * frequencies, 2, dim=1)  # [grid, half]
    by_row = angles[:, None].expand(grid, grid, half)
    by_column = angles[None, :].expand(grid, grid, half)
    angles = torch.cat([by_row, by_column], -1).reshape(grid * grid, HEAD)
    return angles.cos(), angles.sin()


def turn(x, cos, sin):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    quarter = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)
    return x * cos + quarter * sin


def slopes(heads):
    """ALiBi (Press et al. 2021): a geometric series; for other counts than powers of two, every other of the next."""
    power = 2 ** math.floor(math.log2(heads))
    series = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    doubled = [2.0 ** (-8.0 * (i + 1) / (2 * power)) for i in range(2 * power)]
    return torch.tensor(series + doubled[0::2][: heads - power])


class Weights:
    """Random tensors by name, made where they are first asked for."""

    def __init__(self):
        self.tensors = {}

    def __call__(self, name, *shape, mean=0.0, std=None):
        if name not in self.tensors:
            scale = std if std is not None else shape[-1] ** -0.5
            self.tensors[name] = mean + scale * torch.randn(*shape)
        return self.tensors[name]

    def linear(self, x, name, out, bias=True):
        weight = self(f"{name}.weight", out, x.shape[-1])
        return F.linear(x, weight, self(f"{name}.bias", out, std=0.1) if bias else None)

    def norm(self, x, name, eps):
        width = x.shape[-1]
        gain = self(f"{name}.weight", width, mean=1.0, std=0.2)
        return F.layer_norm(x, (width,), gain, self(f"{name}.bias", width, std=0.1), eps)


def attend(q, k, v, heads, bias=None):
    n, tokens, width = q.shape
    q, k, v = (x.reshape(n, tokens, heads, width // heads).transpose(1, 2) for x in (q, k, v))
    return q, k, v, lambda q, k: (torch.softmax(q @ k.transpose(2, 3) * (width // heads) ** -0.5
                                                + (0 if bias is None else bias), -1) @ v
                                  ).transpose(1, 2).reshape(n, tokens, width)


def vision_block(w, x, name, fused, cos, sin):
    y = w.norm(x, f"{name}.norm1", VISION_EPS)
    q_bias, v_bias = w(f"{name}.attn.q_bias", WIDTH, std=0.2), w(f"{name}.attn.v_bias", WIDTH, std=0.2)
    if fused:
        joint = w(f"{name}.attn.qkv.weight", 3 * WIDTH, WIDTH)
        q, k, v = F.linear(y, joint, torch.cat([q_bias, torch.zeros_like(q_bias), v_bias])).chunk(3, -1)
    else:
        q = F.linear(y, w(f"{name}.attn.q_proj.weight", WIDTH, WIDTH), q_bias)
        k = F.linear(y, w(f"{name}.attn.k_proj.weight", WIDTH, WIDTH))
        v = F.linear(y, w(f"{name}.attn.v_proj.weight", WIDTH, WIDTH), v_bias)
    q, k, v, mix = attend(q, k, v, WIDTH // HEAD)
    q = torch.cat([q[:, :, :1], turn(q[:, :, 1:], cos, sin)], 2)
    k = torch.cat([k[:, :, :1], turn(k[:, :, 1:], cos, sin)], 2)
    y = mix(q, k)
    y = y if fused else w.norm(y, f"{name}.attn.inner_attn_ln", VISION_EPS)
    x = x + w.linear(y, f"{name}.attn.proj", WIDTH)
    y = w.norm(x, f"{name}.norm2", VISION_EPS)
    inner = int(WIDTH * MLP_RATIO)
    if fused:
        return x + w.linear(F.gelu(w.linear(y, f"{name}.mlp.fc1", inner)), f"{name}.mlp.fc2", WIDTH)
    y = F.silu(w.linear(y, f"{name}.mlp.w1", inner)) * w.linear(y, f"{name}.mlp.w2", inner)
    return x + w.linear(w.norm(y, f"{name}.mlp.ffn_ln", VISION_EPS), f"{name}.mlp.w3", WIDTH)


def vision(w, pixels, fused):
    n, grid = pixels.shape[0], IMAGE // PATCH
    kernel = w("vision_model.patch_embed.proj.weight", WIDTH, 3, PATCH, PATCH, std=0.07)
    x = F.conv2d(pixels, kernel, w("vision_model.patch_embed.proj.bias", WIDTH, std=0.1), stride=PATCH)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([w("vision_model.cls_token", 1, 1, WIDTH, std=0.3).expand(n, 1, WIDTH), x], 1)
    x = x + w("vision_model.pos_embed", 1, grid * grid + 1, WIDTH, std=0.3)
    cos, sin = rotary(grid)
    for layer in range(LAYERS):
        x = vision_block(w, x, f"vision_model.blocks.{layer}", fused, cos, sin)
        first = x if layer == 0 else first
    return w.norm(x, "vision_model.norm", VISION_EPS)[:, 0], first, x


def text(w, ids):
    mask = (ids != 0).float()
    name, tokens = "text_model.transformer", ids.shape[1]
    x = w(f"{name}.embeddings.word_embeddings.weight", VOCABULARY, WIDTH, std=0.5)[ids]
    x = x + w(f"{name}.embeddings.token_type_embeddings.weight", 2, WIDTH, std=0.5)[0]
    x = w.norm(x, f"{name}.emb_ln", TEXT_EPS)
    places = torch.arange(tokens)
    bias = -slopes(TEXT_HEADS)[:, None, None] * (places[:, None] - places[None]).abs()
    bias = bias[None] + (1 - mask[:, None, None]) * -10000.0
    for layer in range(TEXT_LAYERS):
        at = f"{name}.encoder.layers.{layer}"
        q, k, v = w.linear(x, f"{at}.mixer.Wqkv", 3 * WIDTH).chunk(3, -1)
        q, k, v, mix = attend(q, k, v, TEXT_HEADS, bias)
        x = w.norm(x + w.linear(mix(q, k), f"{at}.mixer.out_proj", WIDTH), f"{at}.norm1", TEXT_EPS)
        gate, up = w.linear(x, f"{at}.mlp.gated_layers", 2 * TEXT_MLP, bias=False).chunk(2, -1)
        x = w.norm(x + w.linear(F.gelu(gate) * up, f"{at}.mlp.wo", WIDTH), f"{at}.norm2", TEXT_EPS)
        first = x if layer == 0 else first
    return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), first, x


def config(fused):
    return {
        "add_projections": False, "architectures": ["JinaCLIPModel"], "initializer_factor": 1.0,
        "logit_scale_init_value": 2.6592, "model_type": "jina_clip", "projection_dim": WIDTH, "torch_dtype": "float32",
        "text_config": {
            "embed_dim": WIDTH, "hf_model_config_kwargs": {"use_flash_attn": False, "num_attention_heads": TEXT_HEADS},
            "hf_model_name_or_path": "jinaai/jina-bert-flash-implementation", "model_type": "jina_clip_text",
            "pooler_type": "mean_pooler", "proj_bias": False, "proj_type": None},
        "vision_config": {
            "embed_dim": WIDTH, "fused_layer_norm": False, "head_width": HEAD, "image_size": IMAGE, "intp_freq": True,
            "layers": LAYERS, "ls_init_value": None, "mlp_ratio": MLP_RATIO, "model_type": "jina_clip_vision",
            "naive_swiglu": not fused, "patch_dropout": 0.1, "patch_size": PATCH, "post_norm": False,
            "pt_hw_seq_len": TRAINED_GRID, "qkv_bias": True, "rope_embeddings": True, "subln": not fused,
            "width": WIDTH, "x_attention": False}}


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    parser.add_argument("--fused", action="store_true", help="the other variants")
    arguments = parser.parse_args()
    out, fused = arguments.out, arguments.fused
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(21)
    w = Weights()
    w.tensors["logit_scale"] = scale = torch.tensor(2.7)
    pixels = torch.randn(3, 3, IMAGE, IMAGE)
    ids = torch.zeros(4, TOKENS, dtype=torch.long)
    for row, length in zip(ids, (TOKENS, 3, 9, 6)):
        row[:length] = torch.randint(1, VOCABULARY, (length,))
    image, first, last = vision(w, pixels, fused)
    words, text_first, text_last = text(w, ids)
    image, words = F.normalize(image, dim=-1), F.normalize(words, dim=-1)
    io = {"pixel_values": pixels, "input_ids": ids, "attention_mask": (ids != 0).long(), "image_embeds": image,
          "text_embeds": words, "logits_per_image": scale.exp() * image @ words.t(), "vision_hidden_1": first,
          "vision_last_hidden_state": last, "text_hidden_1": text_first, "text_last_hidden_state": text_last}
    save_file({name: tensor.contiguous() for name, tensor in io.items()}, out / "io.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in w.tensors.items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(config(fused), indent=2) + "\n")
    preprocessor = {"fill_color": 0, "image_processor_type": "JinaCLIPImageProcessor", "interpolation": "bicubic",
                    "mean": [0.48145466, 0.4578275, 0.40821073], "resize_mode": "shortest", "size": IMAGE,
                    "std": [0.26862954, 0.26130258, 0.27577711]}
    (out / "preprocessor_config.json").write_text(json.dumps(preprocessor, indent=2) + "\n")


if __name__ == "__main__":
    main()
