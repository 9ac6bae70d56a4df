#!/usr/bin/env python3
r"""Ten training steps of a tiny CLIP with PyTorch and transformers: the reference of saccade's trainer.

Writes what src/lab/train/training_curve_test.cc repeats: the same weights (a checkpoint folder), batches,
objective, optimizer and learning rates, in float32 on the CPU.

  input_ids           [batches, n, tokens] int64: step s uses batch s mod batches
  pixel_bytes         [batches, n, 3, side, side] uint8; a pixel's value is (byte - 128) / 64
  learning_rates      [steps] float64: linear warm-up over WARMUP of the steps, then half a cosine down to 0
  losses              [steps] float64: symmetric InfoNCE before each step
  gradient_norms      [steps] float64: joint L2 norm of all gradients before they are clipped
  gradient.<name>     gradients of some parameters at step 0, before they are clipped
  final.<name>        the same parameters after the last step

The constants below are in the file's metadata as well. Needs torch, transformers and safetensors:

  python3 tools/reference/training_curve.py --weights tests/golden/clip-gelu \
      --out tests/golden/training/io.safetensors
"""

import argparse
import math

import torch
from safetensors.torch import save_file
from transformers import CLIPModel

STEPS = 10
BATCHES = 3
PAIRS = 8
PEAK = 2e-3
WARMUP = 0.3
BETAS = (0.9, 0.98)
EPSILON = 1e-6
WEIGHT_DECAY = 0.1
MAX_GRADIENT_NORM = 1.0

# Of each kind: scalar, gain, bias, matrices of both towers, an embedding most of whose rows see no gradient.
WATCHED = (
    "logit_scale",
    "vision_model.embeddings.class_embedding",
    "vision_model.embeddings.position_embedding.weight",
    "vision_model.encoder.layers.0.self_attn.q_proj.weight",
    "vision_model.encoder.layers.2.mlp.fc2.bias",
    "visual_projection.weight",
    "text_model.embeddings.token_embedding.weight",
    "text_model.encoder.layers.1.mlp.fc1.bias",
    "text_model.encoder.layers.2.self_attn.v_proj.weight",
    "text_model.final_layer_norm.weight",
    "text_projection.weight",
)


def pictures(side):
    """Slanted gradients, another for every picture and channel: [batches, n, 3, side, side]."""
    picture = torch.arange(BATCHES * PAIRS).view(-1, 1, 1, 1)
    channel = torch.arange(3).view(1, 3, 1, 1)
    y = torch.arange(side).view(1, 1, side, 1)
    x = torch.arange(side).view(1, 1, 1, side)
    values = x * (1 + picture % 5) + y * (1 + picture % 7) + 37 * channel * (picture + 1)
    return (values % 256).to(torch.uint8).view(BATCHES, PAIRS, 3, side, side)


def texts(config):
    """Start token, 3 to 10 tokens of a simple formula, end token, padding: [batches, n, tokens]."""
    ids = torch.full((BATCHES * PAIRS, config.max_position_embeddings), config.pad_token_id)
    for text, row in enumerate(ids):
        length = 3 + text % 8
        row[0] = config.bos_token_id
        for place in range(length):
            row[1 + place] = (7 * text + 31 * place * place + 5 * place) % config.bos_token_id
        row[1 + length] = config.eos_token_id
    return ids.view(BATCHES, PAIRS, -1)


def learning_rate(step):
    warmup = max(1.0, WARMUP * STEPS)
    if step < warmup:
        return PEAK * (step + 1) / warmup
    share = (step - warmup) / max(1.0, STEPS - warmup)
    return PEAK * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def info_nce(images, texts, logit_scale):
    logits = images @ texts.t() * logit_scale.exp()
    target = torch.arange(len(logits))
    return (torch.nn.functional.cross_entropy(logits, target) +
            torch.nn.functional.cross_entropy(logits.t(), target)) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, help="checkpoint folder to start from")
    parser.add_argument("--out", required=True, help="safetensors file to write")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = CLIPModel.from_pretrained(arguments.weights, dtype=torch.float32).train()
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=PEAK,
        betas=BETAS,
        eps=EPSILON,
    )
    pixel_bytes = pictures(model.config.vision_config.image_size)
    input_ids = texts(model.config.text_config)

    result = {"pixel_bytes": pixel_bytes, "input_ids": input_ids}
    rates, losses, norms = [], [], []
    for step in range(STEPS):
        pixels = (pixel_bytes[step % BATCHES].float() - 128) / 64
        output = model(input_ids=input_ids[step % BATCHES], pixel_values=pixels)
        loss = info_nce(output.image_embeds, output.text_embeds, model.logit_scale)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            for name in WATCHED:
                result["gradient." + name] = parameters[name].grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), MAX_GRADIENT_NORM).item())
        losses.append(loss.item())
        rates.append(learning_rate(step))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.step()
        print(f"step {step}: rate {rates[-1]:.6f}, loss {losses[-1]:.6f}, gradient norm {norms[-1]:.6f}")
    for name in WATCHED:
        result["final." + name] = parameters[name].detach().clone()
    for name, values in (("learning_rates", rates), ("losses", losses), ("gradient_norms", norms)):
        result[name] = torch.tensor(values, dtype=torch.float64)
    constants = {
        "peak": PEAK, "warmup": WARMUP, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY, "max_gradient_norm": MAX_GRADIENT_NORM,
    }
    save_file({name: tensor.contiguous() for name, tensor in result.items()}, arguments.out,
              {name: repr(value) for name, value in constants.items()})


if __name__ == "__main__":
    main()
