#include "saccade/nn/weights/pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>

namespace saccade {
namespace {

using Kind = PickleGraph::Kind;
using Node = PickleGraph::Node;

constexpr size_t kMaxNodes = 1'000'000;  // some 20 a tensor
constexpr size_t kMaxNameBytes = 512;

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8A,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8C,
  kBinString = 'T',
  kShortBinString = 'U',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kNewObject = 0x81,
  kBinPersistentId = 'Q',
  kProtocol = 0x80,
  kFrame = 0x95,
};

// Names of the rejected opcodes, for messages.
struct Refused {
  uint8_t opcode;
  std::string_view name;
};
constexpr Refused kRefused[] = {
    {'i', "INST"},       {'o', "OBJ"},          {'P', "PERSID"},       {0x82, "EXT1"},
    {0x83, "EXT2"},      {0x84, "EXT4"},        {0x92, "NEWOBJ_EX"},   {'I', "INT"},
    {'L', "LONG"},       {0x8B, "LONG4"},       {'F', "FLOAT"},        {'S', "STRING"},
    {'V', "UNICODE"},    {0x8D, "BINUNICODE8"}, {'B', "BINBYTES"},     {'C', "SHORT_BINBYTES"},
    {0x8E, "BINBYTES8"}, {0x96, "BYTEARRAY8"},  {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
    {0x8F, "EMPTY_SET"}, {0x90, "ADDITEMS"},    {0x91, "FROZENSET"},   {'l', "LIST"},
    {'d', "DICT"},       {'g', "GET"},          {'p', "PUT"},          {'2', "DUP"},
};

// Effect of calling a known global.
enum class Call : int64_t {
  kStorageType,  // names a storage's dtype; never called
  kValue,        // a dtype or the like; never called
  kOrderedDict,
  kSize,
  kRebuildTensor,
  kRebuildParameter,
  kFirstArgument,  // TorchScript's lists, which carry their element type along
};

struct Global {
  std::string_view module;
  std::string_view name;
  Call call;
  DType dtype = DType::kF32;
};
constexpr Global kGlobals[] = {
    {"collections", "OrderedDict", Call::kOrderedDict},
    {"torch", "Size", Call::kSize},
    {"torch._utils", "_rebuild_tensor_v2", Call::kRebuildTensor},
    {"torch._utils", "_rebuild_parameter", Call::kRebuildParameter},
    {"torch.jit._pickle", "build_intlist", Call::kFirstArgument},
    {"torch.jit._pickle", "build_doublelist", Call::kFirstArgument},
    {"torch.jit._pickle", "build_boollist", Call::kFirstArgument},
    {"torch.jit._pickle", "build_tensorlist", Call::kFirstArgument},
    {"torch.jit._pickle", "restore_type_tag", Call::kFirstArgument},
    {"torch", "FloatStorage", Call::kStorageType, DType::kF32},
    {"torch", "HalfStorage", Call::kStorageType, DType::kF16},
    {"torch", "BFloat16Storage", Call::kStorageType, DType::kBF16},
    {"torch", "DoubleStorage", Call::kStorageType, DType::kF64},
    {"torch", "LongStorage", Call::kStorageType, DType::kI64},
    {"torch", "IntStorage", Call::kStorageType, DType::kI32},
    {"torch", "ShortStorage", Call::kStorageType, DType::kI16},
    {"torch", "CharStorage", Call::kStorageType, DType::kI8},
    {"torch", "ByteStorage", Call::kStorageType, DType::kU8},
    {"torch", "BoolStorage", Call::kStorageType, DType::kBool},
    {"torch", "float32", Call::kValue},
    {"torch", "float16", Call::kValue},
    {"torch", "bfloat16", Call::kValue},
    {"torch", "float64", Call::kValue},
};
constexpr std::string_view kTorchScriptModules = "__torch__";

class Machine {
 public:
  explicit Machine(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<PickleGraph> run() {
    while (!done_) {
      start_ = at_;
      const Status status = step();
      if (!status) return fail(status.error().in(fmt::format("byte {}", start_)));
    }
    return std::move(graph_);
  }

 private:
  // ---- bytes

  Result<std::span<const std::byte>> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      return fail(ErrorCode::kBadData, "{} bytes are asked for, {} are left", count, bytes_.size() - at_);
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  template <typename T>
  Result<T> number() {
    SACCADE_ASSIGN(const auto raw, take(sizeof(T)));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // Reads up to the next newline, which is dropped.
  Result<std::string_view> line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
    const size_t length = rest.substr(0, kMaxNameBytes + 1).find('\n');
    if (length == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "a name without an end in its first {} bytes", kMaxNameBytes);
    }
    at_ += length + 1;
    return rest.substr(0, length);
  }

  // ---- stack

  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Status push(Node node) {
    if (graph_.nodes.size() >= kMaxNodes) return fail(ErrorCode::kLimit, "more than {} values", kMaxNodes);
    graph_.nodes.push_back(std::move(node));
    stack_.push_back(static_cast<uint32_t>(graph_.nodes.size() - 1));
    return {};
  }
  Status push(Kind kind, int64_t value = 0) {
    return push({.kind = kind, .dtype = DType::kF32, .number = value, .text = {}, .items = {}});
  }
  Status push_text(uint64_t length) {
    SACCADE_ASSIGN(const auto raw, take(length));
    return push({.kind = Kind::kString,
                 .dtype = DType::kF32,
                 .number = 0,
                 .text = {reinterpret_cast<const char*>(raw.data()), raw.size()},
                 .items = {}});
  }

  Result<uint32_t> pop() {
    if (stack_.size() <= floor()) return fail(ErrorCode::kBadData, "the stack is empty");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  Result<std::vector<uint32_t>> pop_several(size_t count) {
    if (stack_.size() - floor() < count) {
      return fail(ErrorCode::kBadData, "{} values are asked for, the stack has {}", count,
                  stack_.size() - floor());
    }
    std::vector<uint32_t> values(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  Result<std::vector<uint32_t>> pop_to_mark() {
    if (marks_.empty()) return fail(ErrorCode::kBadData, "there is no mark on the stack");
    SACCADE_ASSIGN(std::vector<uint32_t> values, pop_several(stack_.size() - marks_.back()));
    marks_.pop_back();
    return values;
  }

  // Returns the top node, which must be of that kind.
  Result<uint32_t> top(Kind kind) {
    if (stack_.size() <= floor()) return fail(ErrorCode::kBadData, "the stack is empty");
    if (node(stack_.back()).kind != kind) {
      return fail(ErrorCode::kBadData, "{} where {} is expected", pickle_kind_name(node(stack_.back()).kind),
                  pickle_kind_name(kind));
    }
    return stack_.back();
  }

  Node& node(uint32_t index) { return graph_.nodes[index]; }

  Status push_items(Kind kind, std::vector<uint32_t> items) {
    SACCADE_TRY(push(kind));
    node(stack_.back()).items = std::move(items);
    return {};
  }

  Status add_items(Kind kind, const std::vector<uint32_t>& items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) {
      return fail(ErrorCode::kBadData, "a dictionary gets a key without a value");
    }
    SACCADE_ASSIGN(const uint32_t target, top(kind));
    std::vector<uint32_t>& all = node(target).items;
    all.insert(all.end(), items.begin(), items.end());
    return {};
  }

  // ---- memo

  Status remember(uint32_t key) {
    if (stack_.size() <= floor()) return fail(ErrorCode::kBadData, "the stack is empty");
    memo_[key] = stack_.back();
    return {};
  }
  Status recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return fail(ErrorCode::kBadData, "memo {} was never set", key);
    // Every reference counts; otherwise a stack of them could grow without limit.
    if (++recalled_ > 4 * kMaxNodes) return fail(ErrorCode::kLimit, "more than {} references", 4 * kMaxNodes);
    stack_.push_back(found->second);
    return {};
  }

  // ---- globals

  Status push_global(std::string_view module, std::string_view name) {
    if (module == kTorchScriptModules || module.starts_with("__torch__.")) {
      return push({.kind = Kind::kGlobal, .dtype = DType::kF32, .number = -1, .text = name, .items = {}});
    }
    for (size_t i = 0; i < std::size(kGlobals); ++i) {
      if (kGlobals[i].module == module && kGlobals[i].name == name) {
        return push(Kind::kGlobal, static_cast<int64_t>(i));
      }
    }
    return fail(ErrorCode::kUnsupported, "global {}.{} is refused: tensors alone are read", printable(module),
                printable(name));
  }

  static std::string printable(std::string_view text) {
    std::string shown(text.substr(0, 100));
    for (char& c : shown) {
      if (c < ' ' || c > '~') c = '?';
    }
    return shown;
  }

  // Returns the known global at a node, or nullptr.
  const Global* global(uint32_t index) {
    const Node& at = node(index);
    return at.kind == Kind::kGlobal && at.number >= 0 ? &kGlobals[at.number] : nullptr;
  }

  Status reduce() {
    SACCADE_ASSIGN(const auto pair, pop_several(2));
    const Global* called = global(pair[0]);
    if (called == nullptr || node(pair[1]).kind != Kind::kTuple) {
      return fail(ErrorCode::kBadData, "a call of {} with {}", pickle_kind_name(node(pair[0]).kind),
                  pickle_kind_name(node(pair[1]).kind));
    }
    const std::span<const uint32_t> arguments = node(pair[1]).items;  // keeps its address when nodes move
    const auto wrong = [&]() {
      return fail(ErrorCode::kBadData, "a call of {}.{} with {} arguments or arguments of the wrong kind",
                  called->module, called->name, arguments.size());
    };
    const auto is = [&](size_t i, Kind kind) { return node(arguments[i]).kind == kind; };
    switch (called->call) {
      case Call::kOrderedDict:
        return arguments.empty() ? push(Kind::kDict) : Status(wrong());
      case Call::kRebuildTensor:
        if (arguments.size() < 4 || !is(0, Kind::kStorage) || !is(1, Kind::kInt) || !is(2, Kind::kTuple) ||
            !is(3, Kind::kTuple)) {
          return wrong();
        }
        return push({.kind = Kind::kTensor,
                     .dtype = node(arguments[0]).dtype,
                     .number = node(arguments[1]).number,
                     .text = {},
                     .items = {arguments[0], arguments[2], arguments[3]}});
      case Call::kRebuildParameter:
        if (arguments.empty() || !is(0, Kind::kTensor)) return wrong();
        break;
      case Call::kSize:
        if (arguments.size() != 1 || !is(0, Kind::kTuple)) return wrong();
        break;
      case Call::kFirstArgument:
        if (arguments.empty()) return wrong();
        break;
      case Call::kStorageType:
      case Call::kValue:
        return fail(ErrorCode::kUnsupported, "a call of {}.{} is refused", called->module, called->name);
    }
    stack_.push_back(arguments[0]);
    return {};
  }

  // Handles ('storage', type, key, location, elements), torch's reference to an archive's entry.
  Status persistent_id() {
    SACCADE_ASSIGN(const uint32_t id, pop());
    const Node& tuple = node(id);
    const Global* type =
        tuple.kind == Kind::kTuple && tuple.items.size() >= 5 ? global(tuple.items[1]) : nullptr;
    if (type == nullptr || type->call != Call::kStorageType || node(tuple.items[0]).text != "storage" ||
        node(tuple.items[2]).kind != Kind::kString || node(tuple.items[4]).kind != Kind::kInt) {
      return fail(ErrorCode::kUnsupported, "a persistent id that is no tensor storage");
    }
    return push({.kind = Kind::kStorage,
                 .dtype = type->dtype,
                 .number = node(tuple.items[4]).number,
                 .text = node(tuple.items[2]).text,
                 .items = {}});
  }

  // A dictionary's state is its attributes (a state_dict's "_metadata"); a module's state is its members.
  Status build() {
    SACCADE_ASSIGN(const uint32_t state, pop());
    if (stack_.size() <= floor()) return fail(ErrorCode::kBadData, "the stack is empty");
    Node& target = node(stack_.back());
    if (target.kind == Kind::kObject) {
      target.items = {state};
    } else if (target.kind != Kind::kDict) {
      return fail(ErrorCode::kUnsupported, "state for {} is refused", pickle_kind_name(target.kind));
    }
    return {};
  }

  Status new_object() {
    SACCADE_ASSIGN(const auto pair, pop_several(2));
    const Node& type = node(pair[0]);
    if (type.kind != Kind::kGlobal || type.number >= 0 || !node(pair[1]).items.empty()) {
      return fail(ErrorCode::kUnsupported, "a new object of {} is refused", pickle_kind_name(type.kind));
    }
    return push({.kind = Kind::kObject, .dtype = DType::kF32, .number = 0, .text = type.text, .items = {}});
  }

  // ---- opcodes

  Status step() {
    SACCADE_ASSIGN(const auto opcode, number<uint8_t>());
    if (const auto value = step_value(opcode)) return *value;
    if (const auto container = step_container(opcode)) return *container;
    return step_rest(opcode);
  }

  // Handles numbers, strings and names; nullopt for other opcodes.
  std::optional<Status> step_value(uint8_t opcode) {
    switch (opcode) {
      case kNone:
        return push(Kind::kNone);
      case kNewTrue:
      case kNewFalse:
        return push(Kind::kBool, opcode == kNewTrue ? 1 : 0);
      case kBinInt:
        return push_number<int32_t>();
      case kBinInt1:
        return push_number<uint8_t>();
      case kBinInt2:
        return push_number<uint16_t>();
      case kLong1:
        return push_long();
      case kBinFloat: {
        const auto raw = take(8);
        return raw ? push(Kind::kFloat) : Status(fail(raw.error()));
      }
      case kBinUnicode:
        return push_counted_text<uint32_t>();
      case kBinString:
        return push_counted_text<int32_t>();
      case kShortBinUnicode:
      case kShortBinString:
        return push_counted_text<uint8_t>();
      case kGlobal: {
        const auto module = line();
        if (!module) return fail(module.error());
        const auto name = line();
        return name ? push_global(*module, *name) : Status(fail(name.error()));
      }
      case kStackGlobal: {
        const auto pair = pop_several(2);
        if (!pair) return fail(pair.error());
        if (node((*pair)[0]).kind != Kind::kString || node((*pair)[1]).kind != Kind::kString) {
          return fail(ErrorCode::kBadData, "a global whose name is no string");
        }
        return push_global(node((*pair)[0]).text, node((*pair)[1]).text);
      }
      default:
        return std::nullopt;
    }
  }

  template <typename T>
  Status push_number() {
    SACCADE_ASSIGN(const T value, number<T>());
    return push(Kind::kInt, value);
  }

  Status push_long() {
    SACCADE_ASSIGN(const auto length, number<uint8_t>());
    if (length > 8) return fail(ErrorCode::kBadData, "an integer of {} bytes, at most 8 fit", length);
    SACCADE_ASSIGN(const auto raw, take(length));
    uint64_t value = length > 0 && (static_cast<uint8_t>(raw.back()) & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = length; i-- > 0;) value = value << 8 | static_cast<uint8_t>(raw[i]);
    return push(Kind::kInt, static_cast<int64_t>(value));
  }

  template <typename Length>
  Status push_counted_text() {
    SACCADE_ASSIGN(const Length length, number<Length>());
    if constexpr (std::is_signed_v<Length>) {
      if (length < 0) return fail(ErrorCode::kBadData, "a string of {} bytes", length);
    }
    return push_text(static_cast<uint64_t>(length));
  }

  // Handles tuples, lists and dictionaries; nullopt for other opcodes.
  std::optional<Status> step_container(uint8_t opcode) {
    const auto with = [&](Result<std::vector<uint32_t>> items, auto&& then) -> Status {
      if (!items) return fail(items.error());
      return then(*std::move(items));
    };
    const auto to_tuple = [&](std::vector<uint32_t> items) {
      return push_items(Kind::kTuple, std::move(items));
    };
    const auto to_list = [&](const std::vector<uint32_t>& items) { return add_items(Kind::kList, items); };
    const auto to_dict = [&](const std::vector<uint32_t>& items) { return add_items(Kind::kDict, items); };
    switch (opcode) {
      case kEmptyTuple:
        return push(Kind::kTuple);
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return with(pop_several(opcode - kTuple1 + 1U), to_tuple);
      case kTuple:
        return with(pop_to_mark(), to_tuple);
      case kEmptyList:
        return push(Kind::kList);
      case kAppend:
        return with(pop_several(1), to_list);
      case kAppends:
        return with(pop_to_mark(), to_list);
      case kEmptyDict:
        return push(Kind::kDict);
      case kSetItem:
        return with(pop_several(2), to_dict);
      case kSetItems:
        return with(pop_to_mark(), to_dict);
      default:
        return std::nullopt;
    }
  }

  template <typename T, typename Then>
  Status with_number(Then&& then) {
    SACCADE_ASSIGN(const T value, number<T>());
    return then(value);
  }

  Status step_rest(uint8_t opcode) {
    const auto put = [&](uint32_t key) { return remember(key); };
    const auto get = [&](uint32_t key) { return recall(key); };
    switch (opcode) {
      case kMark:
        if (marks_.size() >= kMaxNodes) return fail(ErrorCode::kLimit, "more than {} marks", kMaxNodes);
        marks_.push_back(stack_.size());
        return {};
      case kPop:
        return pop() ? Status() : Status(fail(ErrorCode::kBadData, "the stack is empty"));
      case kPopMark: {
        const auto dropped = pop_to_mark();
        return dropped ? Status() : Status(fail(dropped.error()));
      }
      case kBinPut:
        return with_number<uint8_t>(put);
      case kLongBinPut:
        return with_number<uint32_t>(put);
      case kMemoize:
        return remember(static_cast<uint32_t>(memo_.size()));
      case kBinGet:
        return with_number<uint8_t>(get);
      case kLongBinGet:
        return with_number<uint32_t>(get);
      case kReduce:
        return reduce();
      case kBuild:
        return build();
      case kNewObject:
        return new_object();
      case kBinPersistentId:
        return persistent_id();
      case kProtocol:
        return with_number<uint8_t>([](uint8_t version) -> Status {
          if (version >= 2 && version <= 5) return {};
          return fail(ErrorCode::kUnsupported, "pickle protocol {}, 2 to 5 are known", version);
        });
      case kFrame: {
        const auto length = take(8);  // frames only say how much to read ahead
        return length ? Status() : Status(fail(length.error()));
      }
      case kStop: {
        SACCADE_ASSIGN(graph_.root, pop());
        done_ = true;
        return {};
      }
      default:
        break;
    }
    const auto* known = std::find_if(std::begin(kRefused), std::end(kRefused),
                                     [&](const Refused& refused) { return refused.opcode == opcode; });
    if (known != std::end(kRefused)) {
      return fail(ErrorCode::kUnsupported, "opcode {} is refused: tensors alone are read", known->name);
    }
    return fail(ErrorCode::kBadData, "{:#04x} is no opcode", opcode);
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  size_t start_ = 0;  // offset of the current opcode
  PickleGraph graph_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;          // heights of the stack
  std::map<uint32_t, uint32_t> memo_;  // ordered: no choice of keys makes a look-up slow
  size_t recalled_ = 0;
  bool done_ = false;
};

}  // namespace

std::string_view pickle_kind_name(PickleGraph::Kind kind) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "None",   "a truth value", "a whole number", "a number", "a string", "a tuple",
      "a list", "a dictionary",  "a storage",      "a tensor", "a module", "a global"};
  return kNames[static_cast<size_t>(kind)];
}

Result<PickleGraph> read_pickle(std::span<const std::byte> bytes) {
  return Machine(bytes).run();
}

}  // namespace saccade
