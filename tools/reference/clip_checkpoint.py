#!/usr/bin/env python3
"""A small random CLIP checkpoint with its answers, by transformers: what the other golden checkpoints lack.

Weights in float16 over several files, patches of 14, head widths that are no power of two, exact GELU for
pictures and QuickGELU for texts, and the older configs' eos_token_id of 2, which means that a text ends at
its highest id, although token 2 occurs in the texts. The answers are computed in float32 from the weights as
stored. Needs torch, transformers and safetensors:

  python3 tools/reference/clip_checkpoint.py --out tests/golden/clip-legacy-sharded
"""

import argparse

import torch
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel

VOCABULARY = 120
START, END = VOCABULARY - 2, VOCABULARY - 1
POSITIONS = 20
IMAGE = 56

CONFIG = CLIPConfig(
    projection_dim=28,
    vision_config={
        "hidden_size": 60, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 100,
        "image_size": IMAGE, "patch_size": 14, "hidden_act": "gelu", "projection_dim": 28,
    },
    text_config={
        "hidden_size": 36, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 72,
        "max_position_embeddings": POSITIONS, "vocab_size": VOCABULARY, "hidden_act": "quick_gelu",
        "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "projection_dim": 28,
    },
)


def randomize(model):
    """Larger and more varied weights than a fresh model's, so that every one of them counts."""
    for name, parameter in model.named_parameters():
        if name == "logit_scale":
            parameter.fill_(3.1)
        elif parameter.dim() >= 2 and "embedding" not in name:
            parameter.normal_(0, parameter[0].numel() ** -0.5)
        elif parameter.dim() >= 2 or "class_embedding" in name:
            parameter.normal_(0, 0.3)
        elif name.endswith("weight"):
            parameter.normal_(1, 0.2)
        else:
            parameter.normal_(0, 0.1)


def texts():
    """Four texts of several lengths, token 2 among them, padded with the end token: [4, POSITIONS]."""
    ids = torch.full((4, POSITIONS), END)
    for row, length in zip(ids, (POSITIONS - 2, 3, 9, 1)):
        row[0] = START
        row[1:1 + length] = torch.randint(0, START, (length,))
        row[1] = 2
    return ids


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write")
    out = parser.parse_args().out

    torch.manual_seed(5)
    model = CLIPModel(CONFIG).eval()
    randomize(model)
    model.to(torch.float16).save_pretrained(out, max_shard_size="100KB")

    model = CLIPModel.from_pretrained(out, dtype=torch.float32).eval()
    pixel_values = torch.randn(3, 3, IMAGE, IMAGE)
    input_ids = texts()
    output = model(input_ids=input_ids, pixel_values=pixel_values, output_hidden_states=True)
    io = {
        "pixel_values": pixel_values,
        "input_ids": input_ids,
        "image_embeds": output.image_embeds,
        "text_embeds": output.text_embeds,
        "logits_per_image": output.logits_per_image,
        "vision_hidden_1": output.vision_model_output.hidden_states[1],
        "vision_last_hidden_state": output.vision_model_output.last_hidden_state,
        "text_hidden_1": output.text_model_output.hidden_states[1],
        "text_last_hidden_state": output.text_model_output.last_hidden_state,
    }
    save_file({name: tensor.contiguous() for name, tensor in io.items()}, f"{out}/io.safetensors")


if __name__ == "__main__":
    main()
