#include "saccade/nn/weights/torch_file.h"

#include <algorithm>
#include <cstring>

namespace saccade {
namespace {

using Bytes = std::span<const std::byte>;
using Kind = PickleGraph::Kind;
using Node = PickleGraph::Node;
using Tensors = std::map<std::string, StridedTensor, std::less<>>;

constexpr size_t kMaxPickleBytes = size_t{64} << 20;
constexpr size_t kMaxNameBytes = 1024;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxVisits = 1'000'000;
constexpr size_t kMaxDimensions = 16;

// Traverses a pickle's graph and names its tensors.
class Collector {
 public:
  Collector(const PickleGraph& graph, const StorageLookup& storage) : graph_(graph), storage_(storage) {}

  Result<Tensors> run() {
    uint32_t root = graph_.root;
    if (const Node* inner = entry(root, "state_dict"); inner != nullptr && inner->kind == Kind::kDict) {
      root = static_cast<uint32_t>(inner - graph_.nodes.data());
    }
    const Kind kind = node(root).kind;
    if (kind != Kind::kDict && kind != Kind::kObject) {
      return fail(ErrorCode::kBadData, "holds {}, not a dictionary of tensors", pickle_kind_name(kind));
    }
    SACCADE_TRY(visit(root, "", 0));
    return std::move(tensors_);
  }

 private:
  [[nodiscard]] const Node& node(uint32_t index) const { return graph_.nodes[index]; }

  [[nodiscard]] const Node* entry(uint32_t dict, std::string_view key) const {
    const std::vector<uint32_t>& items = node(dict).items;
    if (node(dict).kind != Kind::kDict) return nullptr;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (node(items[i]).kind == Kind::kString && node(items[i]).text == key) return &node(items[i + 1]);
    }
    return nullptr;
  }

  Status visit(uint32_t index, const std::string& name, int depth) {
    if (++visits_ > kMaxVisits) return fail(ErrorCode::kLimit, "more than {} values", kMaxVisits);
    if (depth > kMaxDepth) return fail(ErrorCode::kLimit, "dictionaries nested deeper than {}", kMaxDepth);
    if (name.size() > kMaxNameBytes) return fail(ErrorCode::kLimit, "a name of over {} bytes", kMaxNameBytes);
    const Node& at = node(index);
    const auto below = [&](std::string_view part) {
      return name.empty() ? std::string(part) : name + "." + std::string(part);
    };
    switch (at.kind) {
      case Kind::kTensor: {
        SACCADE_ASSIGN(StridedTensor tensor, resolve(at).in(fmt::format("tensor {}", name)));
        if (!tensors_.emplace(name, std::move(tensor)).second) {
          return fail(ErrorCode::kBadData, "two tensors named {}", name);
        }
        return {};
      }
      case Kind::kDict:
        for (size_t i = 0; i + 1 < at.items.size(); i += 2) {
          const Node& key = node(at.items[i]);
          if (key.kind == Kind::kString) {
            SACCADE_TRY(visit(at.items[i + 1], below(key.text), depth + 1));
          } else if (key.kind == Kind::kInt) {
            SACCADE_TRY(visit(at.items[i + 1], below(std::to_string(key.number)), depth + 1));
          } else if (node(at.items[i + 1]).kind == Kind::kTensor) {
            return fail(ErrorCode::kBadData, "a tensor whose key is {}, not a name",
                        pickle_kind_name(key.kind));
          }
        }
        return {};
      case Kind::kObject:
        return at.items.empty() ? Status() : visit(at.items.front(), name, depth + 1);
      case Kind::kTuple:
      case Kind::kList:
        for (size_t i = 0; i < at.items.size(); ++i) {
          SACCADE_TRY(visit(at.items[i], below(std::to_string(i)), depth + 1));
        }
        return {};
      default:
        return {};
    }
  }

  Result<std::vector<int64_t>> numbers(uint32_t tuple, std::string_view what) const {
    std::vector<int64_t> values;
    const std::vector<uint32_t>& items = node(tuple).items;
    if (items.size() > kMaxDimensions) {
      return fail(ErrorCode::kBadData, "{} dimensions, limit {}", items.size(), kMaxDimensions);
    }
    for (const uint32_t item : items) {
      if (node(item).kind != Kind::kInt || node(item).number < 0) {
        return fail(ErrorCode::kBadData, "{} holds {}, expected numbers from 0 up", what,
                    node(item).kind == Kind::kInt ? std::to_string(node(item).number)
                                                  : std::string(pickle_kind_name(node(item).kind)));
      }
      values.push_back(node(item).number);
    }
    return values;
  }

  Result<StridedTensor> resolve(const Node& tensor) const {
    const Node& storage = node(tensor.items[0]);
    StridedTensor result{.dtype = storage.dtype, .shape = {}, .strides = {}, .bytes = {}};
    SACCADE_ASSIGN(result.shape, numbers(tensor.items[1], "shape"));
    SACCADE_ASSIGN(result.strides, numbers(tensor.items[2], "strides"));
    if (result.shape.size() != result.strides.size()) {
      return fail(ErrorCode::kBadData, "{} sides and {} strides", result.shape.size(), result.strides.size());
    }
    SACCADE_ASSIGN(const Bytes bytes, storage_(storage.text));
    const int64_t element = dtype_size(result.dtype);
    const auto available = static_cast<int64_t>(bytes.size()) / element;
    if (storage.number != available || bytes.size() % static_cast<size_t>(element) != 0) {
      return fail(ErrorCode::kBadData, "storage {} of {} elements of {} has {} bytes", storage.text,
                  storage.number, dtype_name(result.dtype), bytes.size());
    }
    int64_t count = 1;
    int64_t last = tensor.number;  // the last element that is reached
    bool fits = tensor.number >= 0;
    for (size_t i = 0; fits && i < result.shape.size(); ++i) {
      int64_t step = 0;
      fits =
          !__builtin_mul_overflow(count, result.shape[i], &count) &&
          (result.shape[i] == 0 || (!__builtin_mul_overflow(result.shape[i] - 1, result.strides[i], &step) &&
                                    !__builtin_add_overflow(last, step, &last)));
    }
    const bool empty = std::find(result.shape.begin(), result.shape.end(), 0) != result.shape.end();
    if (empty) count = 0;
    fits = fits && (empty ? tensor.number <= available : last < available && count <= available);
    if (!fits) {
      return fail(ErrorCode::kBadData, "shape {}, strides {}, offset {}: outside storage {} of {} elements",
                  shape_text(result.shape), shape_text(result.strides), tensor.number, storage.text,
                  available);
    }
    const int64_t end = empty ? tensor.number : last + 1;
    result.bytes = bytes.subspan(static_cast<size_t>(tensor.number * element),
                                 static_cast<size_t>((end - tensor.number) * element));
    return result;
  }

  const PickleGraph& graph_;
  const StorageLookup& storage_;
  Tensors tensors_;
  size_t visits_ = 0;
};

// Rejects torch's formats before 1.6, by their first bytes.
Status refuse_old_formats(Bytes bytes) {
  // PROTO 2, LONG1 of 10 bytes: the magic number of the plain pickle
  constexpr uint8_t kOldPickle[] = {0x80, 0x02, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C,
                                    0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19};
  const bool pickle =
      bytes.size() >= sizeof(kOldPickle) && std::memcmp(bytes.data(), kOldPickle, sizeof(kOldPickle)) == 0;
  const bool tar = bytes.size() >= 262 && std::memcmp(bytes.data() + 257, "ustar", 5) == 0;
  if (!pickle && !tar) return {};
  return fail(ErrorCode::kUnsupported,
              "torch's format from before 1.6 ({}); load and save it with a newer torch, or as safetensors",
              pickle ? "a plain pickle" : "a tar file");
}

void drop_common_prefix(Tensors& tensors, std::string_view prefix) {
  if (!std::all_of(tensors.begin(), tensors.end(),
                   [&](const auto& t) { return t.first.starts_with(prefix); })) {
    return;
  }
  Tensors renamed;
  for (auto& [name, tensor] : tensors) renamed.emplace(name.substr(prefix.size()), std::move(tensor));
  tensors = std::move(renamed);
}

}  // namespace

Result<Tensors> tensors_of_pickle(Bytes pickle, const StorageLookup& storage) {
  if (pickle.size() > kMaxPickleBytes) {
    return fail(ErrorCode::kLimit, "{} bytes, limit {}", pickle.size(), kMaxPickleBytes);
  }
  SACCADE_ASSIGN(const PickleGraph graph, read_pickle(pickle));
  SACCADE_ASSIGN(Tensors tensors, Collector(graph, storage).run());
  drop_common_prefix(tensors, "module.");
  return tensors;
}

Result<TorchFile> TorchFile::open(const std::filesystem::path& path) {
  SACCADE_ASSIGN(MappedFile file, MappedFile::open(path));
  SACCADE_ASSIGN(TorchFile result, parse(file.bytes()).in(path.string()));
  result.file_ = std::move(file);
  return result;
}

Result<TorchFile> TorchFile::parse(Bytes bytes) {
  SACCADE_TRY(refuse_old_formats(bytes));
  SACCADE_ASSIGN(const ZipArchive archive, ZipArchive::open(bytes));
  const std::vector<std::string> pickles = archive.names_ending("/data.pkl");
  if (pickles.size() != 1) {
    return fail(ErrorCode::kBadData, "a zip file with {} entries */data.pkl, a file of torch.save has one",
                pickles.size());
  }
  const std::string root =
      pickles.front().substr(0, pickles.front().size() - std::string_view("data.pkl").size());
  if (archive.contains(root + "byteorder")) {
    SACCADE_ASSIGN(const Bytes order, archive.stored(root + "byteorder"));
    const std::string_view text(reinterpret_cast<const char*>(order.data()), order.size());
    if (text != "little") {
      return fail(ErrorCode::kUnsupported, "byte order \"{}\", expected \"little\"", text.substr(0, 16));
    }
  }
  SACCADE_ASSIGN(const Bytes pickle, archive.stored(pickles.front()));
  TorchFile file;
  SACCADE_ASSIGN(file.tensors_, tensors_of_pickle(pickle, [&](std::string_view key) {
                                  return archive.stored(root + "data/" + std::string(key));
                                }).in(pickles.front()));
  return file;
}

}  // namespace saccade
