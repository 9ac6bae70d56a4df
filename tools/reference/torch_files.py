#!/usr/bin/env python3
"""Small files as torch writes them, and their tensors as safetensors: what the reader of `.bin` and `.pt` files is
tested on. Needs torch and safetensors:

  python3 tools/reference/torch_files.py --out tests/golden/torch_files
"""

import argparse
import collections
import pathlib

import torch
from safetensors.torch import save_file

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]


def tensors():
    """One of every dtype, and what differs from a plain block of numbers."""
    random = torch.Generator().manual_seed(3)
    values = torch.rand(5, 4, generator=random) * 100
    state = collections.OrderedDict()
    for dtype in DTYPES:
        state[f"dtype.{str(dtype)[6:]}"] = values.to(dtype)
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 3)
    state["transposed"] = values.t()
    state["row"] = values[2]  # within the storage of the next
    state["whole"] = values
    state["every_other"] = values[::2, 1::2]
    state["channels_last"] = torch.rand(2, 3, 4, 5, generator=random).to(memory_format=torch.channels_last)
    state["tied"] = state["scalar"]
    return state


class Leaf(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 2))
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, x):
        return x @ self.weight


class Tree(torch.nn.Module):
    """With attributes of many kinds beside the tensors, as TorchScript keeps them."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(Leaf(), Leaf())
        self.conv = torch.nn.Conv2d(2, 3, 2, bias=False)
        self.count = 3
        self.rate = 0.5
        self.sizes = [1, 2, 3]
        self.names = {"a": 1}
        self.label = "tree"

    def forward(self, x):
        if self.count > 2 and self.names["a"] == 1 and len(self.label) > self.sizes[0]:
            return self.layers[0](x) * self.rate
        return self.conv(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(4)

    state = tensors()
    torch.save(state, out / "state.bin")
    torch.save(state, out / "before_1_6.pt", _use_new_zipfile_serialization=False)
    torch.save(state, out / "protocol_4.bin", pickle_protocol=4)
    parameters = {f"module.{name}": torch.nn.Parameter(tensor) for name, tensor in state.items()
                  if tensor.is_floating_point()}
    torch.save({"epoch": 3, "name": "run", "state_dict": parameters,
                "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 1e-3}]}},
               out / "training.pt")
    tree = Tree()
    torch.jit.script(tree).save(str(out / "torchscript.pt"))
    torch.save(tree, out / "module.pt")

    expected = {f"state.{name}": tensor for name, tensor in state.items()}
    expected |= {f"tree.{name}": tensor for name, tensor in tree.state_dict().items()}
    save_file({name: tensor.contiguous().clone() for name, tensor in expected.items()}, out / "expected.safetensors")


if __name__ == "__main__":
    main()
