"""Encoders of one checkpoint by Saccade and by other programs, for bench/peers/compare."""
import json
import logging
import os
import pathlib
import subprocess

import numpy

from turns import MODELS, Cell, cosine, repeated

SIDE, START, END = 224, 49406, 49407
SIGLIP_WORDS = 32_000
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # OpenAI's CLIP


class Ours:
    """Saccade, a process that answers line by line (ours.cc)."""

    def __init__(self, program, threads):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]))

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["seconds"]

    def runs(self, result_of, *words):
        """Returns a program of a cell: the command with `least` behind it, and its result from a file."""
        return lambda least=0: (self.ask(*words, f"{least:.3f}"), result_of())


class Encoders:
    """The other programs' encoders of one checkpoint. Exported and quantized models stay in its folder."""

    def __init__(self, folder, threads):
        self.folder, self.threads = pathlib.Path(folder), threads

    def torch_model(self, precision):
        import torch
        import transformers
        torch.set_num_threads(self.threads)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
        return transformers.AutoModel.from_pretrained(self.folder, dtype=dtype).eval()

    def tower(self, kind, precision):
        """Returns one tower with its projection, which SigLIP's towers do not have, as a module of one input."""
        import torch
        model = self.torch_model(precision)

        class Tower(torch.nn.Module):
            def forward(self, given):
                if kind == "images":
                    return self.project(self.tower(pixel_values=given).pooler_output)
                return self.project(self.tower(input_ids=given).pooler_output)

        tower = Tower()
        tower.tower = model.vision_model if kind == "images" else model.text_model
        projection = "visual_projection" if kind == "images" else "text_projection"
        tower.project = getattr(model, projection, torch.nn.Identity())
        return tower.eval()

    def onnx(self, kind, example):
        """Returns the path of the tower as an ONNX file of any batch size."""
        path = self.folder / f"{kind}-{'x'.join(map(str, example.shape[1:]))}.onnx"
        if not path.exists():
            import torch
            two = torch.from_numpy(numpy.concatenate([example[:1], example[:1]]))
            partial = path.with_suffix(".partial")
            torch.onnx.export(self.tower(kind, "fp32"), (two,), str(partial), input_names=["given"], output_names=["rows"],
                              dynamic_axes={"given": {0: "batch"}, "rows": {0: "batch"}}, opset_version=17,
                              dynamo=False)
            partial.rename(path)
        return path

    def torch_encodes(self, kind, precision):
        """Returns a function from an array to embeddings."""
        import torch
        tower = self.tower(kind, precision)
        dtype = next(tower.parameters()).dtype if kind == "images" else torch.int64

        def encode(example):
            with torch.inference_mode():
                return tower(torch.from_numpy(example).to(dtype)).float().numpy()
        return encode

    def onnxruntime_encodes(self, kind, example, precision):
        """int8: weights by channel, activations quantized as they come (quantize_dynamic)."""
        import onnxruntime
        path = self.onnx(kind, example)
        if precision == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic
            logging.disable(logging.WARNING)
            whole, path = path, path.with_suffix(".int8.onnx")
            if not path.exists():
                partial = path.with_suffix(".partial")
                quantize_dynamic(str(whole), str(partial), weight_type=QuantType.QInt8, per_channel=True)
                partial.rename(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        options.add_free_dimension_override_by_name("batch", len(example))
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda given: session.run(None, {"given": given})[0]

    def nncf_model(self, kind, example):
        """Returns the path of the tower quantized by NNCF, with its settings for transformers. Its ranges come from inputs
        drawn like the example."""
        path = self.onnx(kind, example).with_suffix(".nncf.xml")
        if not path.exists():
            import nncf
            import openvino
            nncf.set_log_level(logging.ERROR)
            random = numpy.random.default_rng(11)
            one = example[:1]
            model = openvino.Core().read_model(self.onnx(kind, example))
            model.reshape(list(one.shape))
            calibration = nncf.Dataset([random.permuted(one, axis=-1) for _ in range(16)], lambda item: [item])
            quantized = nncf.quantize(model, calibration, model_type=nncf.ModelType.TRANSFORMER, subset_size=16)
            partial = path.with_name("partial.xml")
            openvino.save_model(quantized, partial, compress_to_fp16=False)
            partial.with_suffix(".bin").rename(path.with_suffix(".bin"))
            partial.rename(path)
        return path

    def openvino_encodes(self, kind, example, precision):
        import openvino
        settings = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY"}
        if precision == "int8":
            path = self.nncf_model(kind, example)
        else:
            path = self.onnx(kind, example)
            settings["INFERENCE_PRECISION_HINT"] = {"fp32": "f32"}.get(precision, precision)
        core = openvino.Core()
        model = core.read_model(path)
        model.reshape(list(example.shape))
        compiled = core.compile_model(model, "CPU", settings)
        return lambda given: compiled([given])[0]


def name_in(precision, name):
    """Returns the name of a program, with the kind of its int8."""
    kinds = {"ONNX Runtime": " (dynamic int8)", "OpenVINO": " (NNCF int8)"}
    return name + kinds.get(name, "") if precision == "int8" else name


def example_of(kind, count, tokens, model):
    random = numpy.random.default_rng(7)
    side = MODELS[model].side
    if kind == "images":
        return random.standard_normal((count, 3, side, side), dtype=numpy.float32)
    if MODELS[model].positions:
        return random.integers(1, SIGLIP_WORDS, (count, tokens))
    ids = random.integers(1, START, (count, tokens))
    ids[:, 0], ids[:, -1] = START, END
    return ids


def encoding_cells(kind, context, model):
    """Yields the cells of one tower: its batches, each in all precisions, from preprocessed inputs to embeddings."""
    folder, ours, options = context.checkpoint(model), context.ours, context.options
    encoders = Encoders(folder, options.threads)
    rows_file = context.folder / "rows"
    positions = MODELS[model].positions
    lengths = [positions] if positions else options.tokens
    for count in options.batches:
        for tokens in [0] if kind == "images" else lengths:
            example = example_of(kind, count, tokens, model)
            given = context.folder / f"{kind}-{count}-{tokens}"
            (example if kind == "images" else example.astype(numpy.int32)).tofile(given)
            words = ("pictures", given, count) if kind == "images" else ("texts", given, count, tokens)
            for precision in options.precisions:
                what = kind if kind == "images" else f"texts of {tokens} tokens"
                cell = Cell(f"{what}, {model}, {precision}, batch {count}", f"{kind}/s", count, cosine,
                            "minimum cosine", part=kind, model=model, precision=precision, batch=count, work=what)

                def mine(precision=precision, words=words):
                    ours.ask("load", folder, precision)
                    return ours.runs(lambda: numpy.fromfile(rows_file, numpy.float32).reshape(-1, MODELS[model].width),
                                     *words, rows_file)

                def their(make, example=example):
                    encode = make()
                    return repeated(lambda: encode(example))

                cell.add("saccade", mine)
                if precision != "int8":
                    cell.add("PyTorch, transformers", lambda: their(lambda: encoders.torch_encodes(kind, precision)))
                if precision != "bf16":
                    cell.add(name_in(precision, "ONNX Runtime"),
                             lambda: their(lambda: encoders.onnxruntime_encodes(kind, example, precision)))
                cell.add(name_in(precision, "OpenVINO"),
                         lambda: their(lambda: encoders.openvino_encodes(kind, example, precision)))
                yield cell
            given.unlink()
