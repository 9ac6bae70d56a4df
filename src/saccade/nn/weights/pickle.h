// Restricted pickle reader that can build only nested dictionaries of tensors. This is sufficient for files
// of torch.save and torch.jit.save, and nothing is executed. All other opcodes and globals are rejected by
// name; the few known globals stand for fixed values and never call anything.
//
// References: opcodes in Python's pickletools.py; torch's use of them in torch/serialization.py,
// torch/_utils.py, and torch/csrc/jit/serialization/pickler.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"

namespace saccade {

// Contents of a pickle, as a graph whose nodes may be shared and form cycles.
struct PickleGraph {
  enum class Kind : uint8_t {
    kNone,
    kBool,     // number
    kInt,      // number
    kFloat,    // the value is not kept: no tensor depends on one
    kString,   // text
    kTuple,    // items
    kList,     // items
    kDict,     // items: key, value, key, value, ...
    kStorage,  // dtype, text (its key in the archive), number (elements)
    kTensor,   // items: storage, shape, strides (tuples of kInt); number: offset in elements
    kObject,   // a module of a TorchScript archive; text: its class; items: its state, if any was set
    kGlobal,   // a known global that was not called; number is the machine's own
  };
  struct Node {
    Kind kind = Kind::kNone;
    DType dtype = DType::kF32;
    int64_t number = 0;
    std::string_view text;  // borrowed from the pickle
    std::vector<uint32_t> items;
  };
  std::vector<Node> nodes;
  uint32_t root = 0;
};

std::string_view pickle_kind_name(PickleGraph::Kind kind);

// Parses a pickle, which must outlive the graph. Returns kUnsupported with the refused opcode or global and
// its byte offset, kBadData for broken data, and kLimit above a million nodes. Cost: linear.
Result<PickleGraph> read_pickle(std::span<const std::byte> bytes);

}  // namespace saccade
