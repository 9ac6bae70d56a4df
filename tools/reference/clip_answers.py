#!/usr/bin/env python3
"""The reference's answers for a CLIP checkpoint in the Hugging Face layout, by transformers: the file that
`saccade model conform` compares with. Inputs are random pictures and token ids, fixed by a seed; everything is
computed in float32 from the weights as stored. Needs torch, transformers and safetensors:

  python3 tools/reference/clip_answers.py models/starter      # writes models/starter/io.safetensors
"""

import argparse
import pathlib

import torch
from safetensors.torch import save_file
from transformers import CLIPModel

PICTURES, TEXTS = 3, 4


def inputs(config, seed):
    random = torch.Generator().manual_seed(seed)
    vision, text = config.vision_config, config.text_config
    pixels = torch.rand(PICTURES, vision.num_channels, vision.image_size, vision.image_size, generator=random)
    longest = min(text.max_position_embeddings, 16)
    ids = torch.full((TEXTS, longest), text.eos_token_id)
    mask = torch.zeros(TEXTS, longest, dtype=torch.long)
    for row in range(TEXTS):
        words = 1 + int(torch.randint(longest - 2, (1,), generator=random))
        ids[row, 0] = text.bos_token_id
        ids[row, 1 : words + 1] = torch.randint(text.bos_token_id, (words,), generator=random)
        mask[row, : words + 2] = 1
    return {"pixel_values": pixels * 2 - 1, "input_ids": ids, "attention_mask": mask}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("checkpoint", type=pathlib.Path)
    arguments.add_argument("--seed", type=int, default=1)
    arguments = arguments.parse_args()

    model = CLIPModel.from_pretrained(arguments.checkpoint, attn_implementation="eager").float().eval()
    tensors = inputs(model.config, arguments.seed)
    with torch.no_grad():
        answers = model(**tensors, output_hidden_states=True)
    vision, text = answers.vision_model_output, answers.text_model_output
    tensors |= {
        "image_embeds": answers.image_embeds,
        "text_embeds": answers.text_embeds,
        "logits_per_image": answers.logits_per_image,
        "vision_hidden_1": vision.hidden_states[1],
        "vision_last_hidden_state": vision.last_hidden_state,
        "text_hidden_1": text.hidden_states[1],
        "text_last_hidden_state": text.last_hidden_state,
    }
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()},
              arguments.checkpoint / "io.safetensors")


if __name__ == "__main__":
    main()
