#!/usr/bin/env python3
"""A tiny random CLIP with a ResNet for pictures, in plain PyTorch after its published description, and its answers.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", sections 2.4 and A: a
ResNet-D stem of three convolutions, an average pool before every convolution that would skip pixels, attention pooling
in place of the mean. Tensor names are those of the published checkpoints. Written twice, with the same weights:

  OUT/clip-resnet         open_clip_config.json, open_clip_pytorch_model.bin (OpenCLIP's layout, by torch.save)
  OUT/clip-resnet-openai  model.pt (a TorchScript archive without a config, as OpenAI publishes), weights in float16

Needs torch and safetensors:

  python3 tools/reference/clip_resnet.py --out tests/golden
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, IMAGE = 4, [1, 2, 1, 1], 64  # of the vision tower; heads are as wide as everywhere: 64
TEXT_WIDTH, TEXT_LAYERS, TEXT_HEADS = 64, 2, 1
VOCABULARY, CONTEXT, EMBED = 90, 12, 24


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.downsample = nn.ModuleDict()
        if stride > 1 or inputs != 4 * planes:
            self.downsample = nn.ModuleDict({"0": nn.Conv2d(inputs, 4 * planes, 1, bias=False),
                                             "1": nn.BatchNorm2d(4 * planes)})

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        y = F.avg_pool2d(y, self.stride) if self.stride > 1 else y
        y = self.bn3(self.conv3(y))
        if len(self.downsample) > 0:
            x = F.avg_pool2d(x, self.stride) if self.stride > 1 else x
            x = self.downsample["1"](self.downsample["0"](x))
        return torch.relu(x + y)


class AttentionPool(nn.Module):
    """One query, the mean over all places, attends to itself and to them."""

    def __init__(self, places, width, heads, out):
        super().__init__()
        self.heads = heads
        self.positional_embedding = nn.Parameter(torch.randn(places + 1, width))
        self.k_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.c_proj = nn.Linear(width, out)

    def forward(self, x):
        n, width = x.shape[0], x.shape[1]
        x = x.reshape(n, width, -1).permute(0, 2, 1)
        x = torch.cat([x.mean(1, keepdim=True), x], 1) + self.positional_embedding
        split = (n, -1, self.heads, width // self.heads)
        q = self.q_proj(x[:, :1]).reshape(split).transpose(1, 2)
        k = self.k_proj(x).reshape(split).transpose(1, 2)
        v = self.v_proj(x).reshape(split).transpose(1, 2)
        weights = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, -1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(n, width))


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH // 2, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH // 2)
        self.conv2 = nn.Conv2d(WIDTH // 2, WIDTH // 2, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(WIDTH // 2)
        self.conv3 = nn.Conv2d(WIDTH // 2, WIDTH, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(WIDTH)
        inputs, stages = WIDTH, []
        for stage, blocks in enumerate(LAYERS):
            planes, made = WIDTH << stage, []
            for block in range(blocks):
                made.append(Bottleneck(inputs, planes, 2 if stage > 0 and block == 0 else 1))
                inputs = 4 * planes
            stages.append(nn.Sequential(*made))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.attnpool = AttentionPool((IMAGE // 32) ** 2, 32 * WIDTH, 32 * WIDTH // 64, EMBED)

    def forward(self, x):
        for conv, norm in ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)):
            x = torch.relu(norm(conv(x)))
        first = self.layer1(F.avg_pool2d(x, 2))
        last = self.layer4(self.layer3(self.layer2(first)))
        return self.attnpool(last), first, last


class QuickGelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(TEXT_WIDTH)
        self.attn = nn.MultiheadAttention(TEXT_WIDTH, TEXT_HEADS)
        self.ln_2 = nn.LayerNorm(TEXT_WIDTH)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(TEXT_WIDTH, 2 * TEXT_WIDTH), "gelu": QuickGelu(),
                                  "c_proj": nn.Linear(2 * TEXT_WIDTH, TEXT_WIDTH)})

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp["c_proj"](self.mlp["gelu"](self.mlp["c_fc"](self.ln_2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.resblocks = nn.ModuleList([Block() for _ in range(TEXT_LAYERS)])

    def forward(self, x, mask):
        x = self.resblocks[0](x, mask)
        first = x
        for block in self.resblocks[1:]:
            x = block(x, mask)
        return x, first


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = Vision()
        self.transformer = Transformer()
        self.token_embedding = nn.Embedding(VOCABULARY, TEXT_WIDTH)
        self.positional_embedding = nn.Parameter(torch.randn(CONTEXT, TEXT_WIDTH) * 0.1)
        self.ln_final = nn.LayerNorm(TEXT_WIDTH)
        self.text_projection = nn.Parameter(torch.randn(TEXT_WIDTH, EMBED) * TEXT_WIDTH**-0.5)
        self.logit_scale = nn.Parameter(torch.tensor(2.9))
        # OpenAI's archives carry these along.
        self.register_buffer("input_resolution", torch.tensor(IMAGE))
        self.register_buffer("context_length", torch.tensor(CONTEXT))
        self.register_buffer("vocab_size", torch.tensor(VOCABULARY))

    def encode_text(self, ids):
        mask = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        x = self.token_embedding(ids) + self.positional_embedding
        x, first = self.transformer(x.transpose(0, 1), mask)
        last = self.ln_final(x.transpose(0, 1))
        return last[torch.arange(ids.shape[0]), ids.argmax(-1)] @ self.text_projection, first.transpose(0, 1), last

    def forward(self, pixels, ids):
        return self.visual(pixels)[0], self.encode_text(ids)[0]


def randomize(model):
    """More varied weights than a fresh model's, batch statistics too, so that every one of them counts."""
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if not tensor.is_floating_point() or name == "logit_scale":
            continue
        if name.endswith("running_var") or "bn" in name and name.endswith("weight"):
            tensor.uniform_(0.6, 1.6)
        elif name.endswith("running_mean") or name.endswith("bias"):
            tensor.normal_(0, 0.2)
        elif tensor.dim() == 1:
            tensor.normal_(1, 0.2)
        elif tensor.dim() == 4:
            tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5)
        else:
            tensor.normal_(0, tensor.shape[-1] ** -0.5)


def answers(model):
    pixels = torch.randn(3, 3, IMAGE, IMAGE)
    ids = torch.zeros(4, CONTEXT, dtype=torch.long)
    for row, length in zip(ids, (CONTEXT - 2, 2, 7, 4)):
        row[0] = VOCABULARY - 2
        row[1:length + 1] = torch.randint(1, VOCABULARY - 2, (length,))
        row[length + 1] = VOCABULARY - 1
    image, first, last = model.visual(pixels)
    text, text_first, text_last = model.encode_text(ids)
    image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
    return {"pixel_values": pixels, "input_ids": ids, "image_embeds": image, "text_embeds": text,
            "logits_per_image": model.logit_scale.exp() * image @ text.t(), "vision_hidden_1": first,
            "vision_last_hidden_state": last, "text_hidden_1": text_first, "text_last_hidden_state": text_last}


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write the two folders into")
    out = parser.parse_args().out
    torch.manual_seed(11)
    model = Clip().eval()
    randomize(model)
    # Weights that float16 holds exactly, so that both files have the same.
    for tensor in list(model.parameters()) + [b for b in model.buffers() if b.is_floating_point()]:
        tensor.copy_(tensor.half().float())
    io = {name: tensor.contiguous() for name, tensor in answers(model).items()}

    open_clip, openai = out / "clip-resnet", out / "clip-resnet-openai"
    for folder in (open_clip, openai):
        folder.mkdir(parents=True, exist_ok=True)
    config = {"model_cfg": {"embed_dim": EMBED, "quick_gelu": True,
                            "vision_cfg": {"image_size": IMAGE, "layers": LAYERS, "width": WIDTH, "patch_size": None},
                            "text_cfg": {"context_length": CONTEXT, "vocab_size": VOCABULARY, "width": TEXT_WIDTH,
                                         "heads": TEXT_HEADS, "layers": TEXT_LAYERS}},
              "preprocess_cfg": {"mean": [0.48145466, 0.4578275, 0.40821073],
                                 "std": [0.26862954, 0.26130258, 0.27577711]}}
    (open_clip / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n")
    state = {name: tensor for name, tensor in model.state_dict().items()
             if name not in ("input_resolution", "context_length", "vocab_size")}
    torch.save(state, open_clip / "open_clip_pytorch_model.bin")
    save_file(io, open_clip / "io.safetensors")

    # Traced in float32, kept in float16 as published: batch normalization's too.
    traced = torch.jit.trace(model, (io["pixel_values"], io["input_ids"]))
    traced.half().save(str(openai / "model.pt"))


if __name__ == "__main__":
    main()
