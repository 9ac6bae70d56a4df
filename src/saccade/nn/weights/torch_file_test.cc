// Tests of torch_file: files written by torch are compared with the same tensors as safetensors, and files
// with many kinds of errors, mostly built byte by byte, are rejected.
#include "saccade/nn/weights/torch_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/thread_seconds.h"
#include "saccade/nn/weights/pickle.h"
#include "saccade/nn/weights/zip_archive.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden/torch_files" / name;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Returns the tensor's elements in contiguous order.
std::string gathered(const StridedTensor& tensor) {
  const auto size = static_cast<size_t>(dtype_size(tensor.dtype));
  std::string result;
  std::vector<int64_t> at(tensor.shape.size(), 0);
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return result;
  while (true) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * tensor.strides[i];
    result.append(reinterpret_cast<const char*>(tensor.bytes.data()) + static_cast<size_t>(offset) * size,
                  size);
    size_t side = at.size();
    while (side > 0 && ++at[side - 1] == tensor.shape[side - 1]) at[--side] = 0;
    if (side == 0) return result;
  }
}

void expect_equal(const StridedTensor& ours, const TensorView& expected, const std::string& name) {
  EXPECT_EQ(ours.dtype, expected.dtype) << name;
  EXPECT_EQ(ours.shape, expected.shape) << name;
  const std::string bytes = gathered(ours);
  ASSERT_EQ(bytes.size(), expected.bytes.size()) << name;
  if (bytes.empty()) return;
  EXPECT_EQ(std::memcmp(bytes.data(), expected.bytes.data(), bytes.size()), 0) << name;
}

TEST(TorchFile, ReadsWhatTorchWrites) {
  const auto expected = SafeTensors::open(golden("expected.safetensors"));
  ASSERT_TRUE(expected) << expected.error().message;
  const std::pair<const char*, const char*> files[] = {
      {"state.bin", "state."}, {"protocol_4.bin", "state."}, {"torchscript.pt", "tree."}};
  for (const auto& [file, prefix] : files) {
    const auto read = TorchFile::open(golden(file));
    ASSERT_TRUE(read) << read.error().message;
    size_t count = 0;
    for (const auto& [name, tensor] : expected->tensors()) {
      if (!name.starts_with(prefix)) continue;
      ++count;
      const auto found = read->tensors().find(name.substr(std::strlen(prefix)));
      ASSERT_NE(found, read->tensors().end()) << file << ": " << name;
      expect_equal(found->second, tensor, name);
    }
    EXPECT_EQ(read->tensors().size(), count) << file;
    EXPECT_GE(count, 5U);
  }
}

TEST(TorchFile, OfATrainingCheckpointReadsTheWeightsAlone) {
  const auto expected = SafeTensors::open(golden("expected.safetensors"));
  const auto read = TorchFile::open(golden("training.pt"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors().size(), 12U);
  for (const auto& [name, tensor] : read->tensors()) {
    ASSERT_NE(expected->find(std::string("state.") + name), nullptr) << name;
    expect_equal(tensor, *expected->find(std::string("state.") + name), name);
  }
}

TEST(TorchFile, MapsWithoutCopying) {
  const auto content = read_file(golden("state.bin"));
  ASSERT_TRUE(content);
  const auto read = TorchFile::parse(bytes_of(*content));
  ASSERT_TRUE(read) << read.error().message;
  const auto* begin = reinterpret_cast<const std::byte*>(content->data());
  for (const auto& [name, tensor] : read->tensors()) {
    if (tensor.bytes.empty()) continue;
    EXPECT_GE(tensor.bytes.data(), begin) << name;
    EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), begin + content->size()) << name;
  }
  // Two views of one storage.
  EXPECT_EQ(read->tensors().at("row").bytes.data(), read->tensors().at("whole").bytes.data() + 2 * 4 * 4);
}

TEST(TorchFile, RefusesByName) {
  const auto message = [](const char* file) {
    const auto read = TorchFile::open(golden(file));
    return read ? std::string("good") : read.error().message;
  };
  EXPECT_THAT(message("before_1_6.pt"), HasSubstr("torch's format from before 1.6 (a plain pickle)"));
  EXPECT_THAT(message("module.pt"), HasSubstr("module/data.pkl: byte"));
  EXPECT_THAT(message("module.pt"), HasSubstr("global __main__.Tree is refused"));
  EXPECT_THAT(message("expected.safetensors"), HasSubstr("not a zip file"));
  EXPECT_THAT(message("none.bin"), HasSubstr("No such file"));
}

TEST(TorchFile, TruncatedAnywhereIsAnError) {
  const auto content = read_file(golden("state.bin"));
  ASSERT_TRUE(content);
  for (size_t length = 0; length < content->size(); ++length) {
    const std::string cut = content->substr(0, length);
    EXPECT_FALSE(TorchFile::parse(bytes_of(cut))) << length;
  }
}

// All reads stay within the file for any change of a single byte.
TEST(TorchFile, EveryByteChangedIsReadOrRefused) {
  const auto content = read_file(golden("torchscript.pt"));
  ASSERT_TRUE(content);
  std::string changed = *content;
  for (size_t i = 0; i < changed.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      changed[i] = static_cast<char>((*content)[i] ^ flip);
      const auto read = TorchFile::parse(bytes_of(changed));
      if (!read) {
        EXPECT_FALSE(read.error().message.empty());
        continue;
      }
      for (const auto& [name, tensor] : read->tensors()) {
        EXPECT_LE(gathered(tensor).size(), changed.size()) << name;
      }
    }
    changed[i] = (*content)[i];
  }
}

// ---- zip files made here

template <typename T>
std::string raw(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

struct ZipEntry {
  std::string name;
  std::string data;
  uint16_t method = 0;
  uint16_t flags = 0;
  int64_t header = -1;  // the offset the directory states; -1: the right one
  int64_t size = -1;    // the size the directory states
};

std::string zip(const std::vector<ZipEntry>& entries) {
  std::string file;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const auto size =
        static_cast<uint32_t>(entry.size >= 0 ? entry.size : static_cast<int64_t>(entry.data.size()));
    const auto header =
        static_cast<uint32_t>(entry.header >= 0 ? entry.header : static_cast<int64_t>(file.size()));
    const auto name = static_cast<uint16_t>(entry.name.size());
    directory += std::string("PK\x01\x02") + std::string(4, '\0') + raw(entry.flags) + raw(entry.method) +
                 std::string(8, '\0') + raw(size) + raw(size) + raw(name) + std::string(12, '\0') +
                 raw(header) + entry.name;
    file += std::string("PK\x03\x04") + std::string(22, '\0') + raw(name) + std::string(2, '\0') +
            entry.name + entry.data;
  }
  const auto count = static_cast<uint16_t>(entries.size());
  return file + directory + "PK\x05\x06" + std::string(4, '\0') + raw(count) + raw(count) +
         raw(static_cast<uint32_t>(directory.size())) + raw(static_cast<uint32_t>(file.size())) +
         raw(uint16_t{0});
}

std::string zip_error(const std::string& file) {
  const auto archive = ZipArchive::open(bytes_of(file));
  return archive ? "good" : archive.error().message;
}

TEST(ZipArchive, FindsStoredEntries) {
  const std::string file = zip({{"a/one", "1"}, {"a/two", "22"}, {"a/none", ""}});
  const auto archive = ZipArchive::open(bytes_of(file));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->stored("a/two")->size(), 2U);
  EXPECT_EQ(archive->stored("a/none")->size(), 0U);
  EXPECT_EQ(archive->stored("two").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(archive->names_ending("e"), (std::vector<std::string>{"a/none", "a/one"}));
}

TEST(ZipArchive, RefusesWhatIsNotStored) {
  const std::string file = zip({{"bomb", "x", 8}, {"secret", "y", 0, 1}});
  const auto archive = ZipArchive::open(bytes_of(file));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_THAT(archive->stored("bomb").error().message, HasSubstr("entry bomb is compressed (method 8)"));
  EXPECT_THAT(archive->stored("secret").error().message, HasSubstr("entry secret is encrypted"));
}

TEST(ZipArchive, EveryDamageIsNamed) {
  EXPECT_EQ(zip_error(zip({})), "good");
  EXPECT_THAT(zip_error(""), HasSubstr("too few"));
  EXPECT_THAT(zip_error(std::string(100, 'x')), HasSubstr("not a zip file"));
  EXPECT_THAT(zip_error(zip({{"a", "1"}, {"a", "2"}})), HasSubstr("two entries named a"));
  EXPECT_THAT(zip_error(zip({{"a", "1234"}, {"b", "5678", 0, 0, 0}})),
              HasSubstr("entry b begins at byte 0, before"));
  EXPECT_THAT(zip_error(zip({{"a", "1234", 0, 0, -1, 20}, {"b", "5"}})),
              HasSubstr("entry b begins at byte 35, before a ends at byte 51"));
  EXPECT_THAT(zip_error(zip({{"a", "1234", 0, 0, -1, 5000}})), HasSubstr("goes past the directory"));
  EXPECT_THAT(zip_error(zip({{"a", "1234", 0, 0, 70000}})), HasSubstr("no local header at byte 70000"));
  EXPECT_THAT(zip_error(zip({{"a", "1234", 0, 0, 1}})), HasSubstr("no local header at byte 1"));
  EXPECT_THAT(zip_error(zip({{"a", "1", 0, 0, -1, 0xFFFFFFFF}})), HasSubstr("zip64 numbers are missing"));
  std::string many = zip({{"a", "1"}});
  many[many.size() - 12] = '\7';
  EXPECT_THAT(zip_error(many), HasSubstr("for 7 entries"));
  std::string far = zip({{"a", "1"}});
  far[far.size() - 3] = '\x7F';
  EXPECT_THAT(zip_error(far), HasSubstr("zip directory of"));
}

// ---- pickles made here

// Memo keys that all collide in one bucket of libstdc++'s hash table, with references to all of them. Takes a
// tenth of a second, but would take minutes if the memo were such a table.
TEST(Pickle, MemoKeysMayBeHostile) {
  constexpr uint32_t kKeys = 42'000;
  constexpr uint32_t kReferences = 300'000;
  std::unordered_map<uint32_t, uint32_t> table;
  for (uint32_t i = 0; i < kKeys; ++i) table.emplace(i, i);
  const auto buckets = static_cast<uint32_t>(table.bucket_count());
  ASSERT_LT(uint64_t{kKeys} * buckets, uint64_t{1} << 32);
  const auto seconds_with = [&](uint32_t step) {
    std::string pickle = "\x80\x02N";
    for (uint32_t i = 0; i < kKeys; ++i) pickle.append("r").append(raw(i * step));
    for (uint32_t i = 0; i < kReferences; ++i) {
      pickle.append("j").append(raw(uint32_t{i % kKeys} * step)).append("0");
    }
    const double begun = thread_seconds();
    const auto graph = read_pickle(bytes_of(pickle + "."));
    const double seconds = thread_seconds() - begun;
    EXPECT_TRUE(graph) << graph.error().message;
    EXPECT_TRUE(graph && graph->nodes.size() == 1);
    return seconds;
  };
  EXPECT_LT(seconds_with(buckets), 10 * seconds_with(1) + 0.1);
}

const std::string kProtocol2 = "\x80\x02";

std::string global(const std::string& module, const std::string& name) {
  return std::string("c") + module + "\n" + name + "\n";
}
std::string text(const std::string& value) {
  return std::string("X") + raw(static_cast<uint32_t>(value.size())) + value;
}
std::string integer(int64_t value) {
  return std::string("\x8A\x08") + raw(value);
}
std::string numbers(const std::vector<int64_t>& values) {
  std::string result = "(";
  for (const int64_t value : values) result += integer(value);
  return result + "t";
}
std::string storage(const std::string& type, const std::string& key, int64_t elements) {
  return std::string("(") + text("storage") + global("torch", type) + text(key) + text("cpu") +
         integer(elements) + "tQ";
}
std::string tensor(int64_t offset, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                   const std::string& from = storage("FloatStorage", "0", 8)) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + from + integer(offset) + numbers(shape) +
         numbers(strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}
std::string dictionary(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string result = "}(";
  for (const auto& [name, value] : entries) result += text(name) + value;
  return result + "u";
}

// Returns the message for a file with that pickle and a storage "0" of 32 bytes.
std::string pickle_error(const std::string& pickle) {
  const std::string file =
      zip({{"r/data.pkl", pickle}, {"r/data/0", std::string(32, 'x')}, {"r/data/z", "bomb", 8}});
  const auto read = TorchFile::parse(bytes_of(file));
  if (read) return "good";
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  return read.error().message;
}
std::string tensor_error(const std::string& tensor) {
  return pickle_error(kProtocol2 + dictionary({{"w", tensor}}) + ".");
}

TEST(TorchFile, GeometryIsChecked) {
  EXPECT_EQ(tensor_error(tensor(0, {2, 4}, {4, 1})), "good");
  EXPECT_EQ(tensor_error(tensor(7, {}, {})), "good");
  EXPECT_EQ(tensor_error(tensor(8, {0, 3}, {3, 1})), "good");
  EXPECT_EQ(tensor_error(tensor(0, {8}, {0})), "good");  // expanded, no larger than its storage
  const int64_t far = int64_t{1} << 62;
  const std::string outside[] = {
      tensor(8, {}, {}),              // behind the last element
      tensor(-1, {1}, {1}),           // before the first
      tensor(1, {2, 4}, {4, 1}),      // one too many
      tensor(0, {3}, {4}),            // a stride too wide
      tensor(9, {0}, {1}),            // empty, but outside
      tensor(0, {9}, {0}),            // expanded beyond what is stored
      tensor(0, {far, 4}, {0, 0}),    // products that overflow
      tensor(0, {2, 2}, {far, far}),  // sums that overflow
      tensor(far, {2}, {far}),
  };
  for (const std::string& wrong : outside) {
    EXPECT_THAT(tensor_error(wrong), HasSubstr("outside storage 0 of 8 elements"));
    EXPECT_THAT(tensor_error(wrong), HasSubstr("tensor w"));
  }
  EXPECT_THAT(tensor_error(tensor(0, {2}, {-1})), HasSubstr("strides holds -1"));
  EXPECT_THAT(tensor_error(tensor(0, {-2}, {1})), HasSubstr("shape holds -2"));
  EXPECT_THAT(tensor_error(tensor(0, {2, 2}, {1})), HasSubstr("2 sides and 1 strides"));
  EXPECT_THAT(tensor_error(tensor(0, std::vector<int64_t>(17, 1), std::vector<int64_t>(17, 1))),
              HasSubstr("17 dimensions"));
}

TEST(TorchFile, StoragesAreChecked) {
  const auto of = [](const std::string& from) { return tensor_error(tensor(0, {1}, {1}, from)); };
  EXPECT_EQ(of(storage("ByteStorage", "0", 32)), "good");
  EXPECT_THAT(of(storage("FloatStorage", "0", 9)), HasSubstr("storage 0 of 9 elements of F32 has 32 bytes"));
  EXPECT_THAT(of(storage("FloatStorage", "0", 7)), HasSubstr("storage 0 of 7 elements"));
  EXPECT_THAT(of(storage("FloatStorage", "0", int64_t{1} << 62)), HasSubstr("elements of F32 has 32 bytes"));
  EXPECT_THAT(of(storage("FloatStorage", "1", 8)), HasSubstr("no entry r/data/1"));
  EXPECT_THAT(of(storage("FloatStorage", "z", 8)), HasSubstr("entry r/data/z is compressed"));
  EXPECT_THAT(of(storage("float32", "0", 8)), HasSubstr("no tensor storage"));
  EXPECT_THAT(of("K\x05Q"), HasSubstr("no tensor storage"));
  EXPECT_THAT(of(storage("ComplexFloatStorage", "0", 4)),
              HasSubstr("global torch.ComplexFloatStorage is refused"));
}

TEST(TorchFile, NothingButTensorsIsBuilt) {
  EXPECT_THAT(tensor_error(global("os", "system") + text("true") + "\x85R"),
              HasSubstr("global os.system is refused: tensors alone are read"));
  EXPECT_THAT(tensor_error(text("os") + text("system") + "\x93"), HasSubstr("global os.system is refused"));
  EXPECT_THAT(tensor_error(global("numpy.core.multiarray", "scalar")),
              HasSubstr("numpy.core.multiarray.scalar"));
  EXPECT_THAT(tensor_error(global("builtins", "eval\x1b[2J")), HasSubstr("builtins.eval?[2J"));
  EXPECT_THAT(tensor_error("(ios\nsystem\n"), HasSubstr("opcode INST is refused"));
  EXPECT_THAT(tensor_error("I1\n"), HasSubstr("opcode INT is refused"));
  EXPECT_THAT(tensor_error("\x82\x01"), HasSubstr("opcode EXT1 is refused"));
  EXPECT_THAT(tensor_error("\xFE"), HasSubstr("0xfe is no opcode"));
  EXPECT_THAT(tensor_error(global("torch", "FloatStorage") + ")R"), HasSubstr("call of torch.FloatStorage"));
  EXPECT_THAT(tensor_error(global("__torch__.x", "M") + ")R"), HasSubstr("a call of a global"));
  EXPECT_THAT(tensor_error(global("torch", "Size") + ")\x81"),
              HasSubstr("a new object of a global is refused"));
  EXPECT_THAT(tensor_error("K\x01}b"), HasSubstr("state for a whole number is refused"));
  EXPECT_THAT(tensor_error(global("torch._utils", "_rebuild_tensor_v2") + ")R"),
              HasSubstr("torch._utils._rebuild_tensor_v2 with 0 arguments"));
  EXPECT_THAT(tensor_error(global("torch._utils", "_rebuild_parameter") + "K\x01\x85R"),
              HasSubstr("wrong kind"));
}

TEST(TorchFile, BrokenPicklesAreNamed) {
  EXPECT_THAT(pickle_error(""), HasSubstr("1 bytes are asked for, 0 are left"));
  EXPECT_THAT(pickle_error("."), HasSubstr("the stack is empty"));
  EXPECT_THAT(pickle_error("N."), HasSubstr("holds None, not a dictionary of tensors"));
  EXPECT_THAT(pickle_error("\x80\x01N."), HasSubstr("pickle protocol 1, 2 to 5 are known"));
  EXPECT_THAT(pickle_error("\x80\x63N."), HasSubstr("pickle protocol 99"));
  EXPECT_THAT(pickle_error("u"), HasSubstr("no mark"));
  EXPECT_THAT(pickle_error("(u"), HasSubstr("the stack is empty"));
  EXPECT_THAT(pickle_error("}(Nu"), HasSubstr("a key without a value"));
  EXPECT_THAT(pickle_error("N(NNu"), HasSubstr("None where a dictionary is expected"));
  EXPECT_THAT(pickle_error("}Na"), HasSubstr("a dictionary where a list is expected"));
  EXPECT_THAT(pickle_error("}(N0."), HasSubstr("the stack is empty"));
  EXPECT_THAT(pickle_error("}(N00"), HasSubstr("the stack is empty"));  // not past the mark
  EXPECT_THAT(pickle_error("h\x07"), HasSubstr("memo 7 was never set"));
  EXPECT_THAT(pickle_error("q\x07"), HasSubstr("the stack is empty"));
  EXPECT_THAT(pickle_error(std::string("\x8A\x09") + std::string(9, 'x')),
              HasSubstr("an integer of 9 bytes"));
  EXPECT_THAT(pickle_error(std::string("X") + raw(uint32_t{0xFFFFFFFF})),
              HasSubstr("4294967295 bytes are asked for"));
  EXPECT_THAT(pickle_error(std::string("T") + raw(int32_t{-1})), HasSubstr("a string of -1 bytes"));
  EXPECT_THAT(pickle_error(std::string("c") + std::string(10000, 'x')), HasSubstr("a name without an end"));
  EXPECT_THAT(pickle_error(dictionary({{"w", tensor(0, {1}, {1})}, {"w", tensor(0, {1}, {1})}}) + "."),
              HasSubstr("two tensors named w"));
  EXPECT_THAT(pickle_error(std::string("}N") + tensor(0, {1}, {1}) + "s."),
              HasSubstr("a tensor whose key is None"));
}

// Pickles that grow: in size, in the number of values, and in the number of paths to them.
TEST(TorchFile, PicklesCannotGrowWithoutBound) {
  EXPECT_THAT(pickle_error(std::string("}q\x01") + text("self") + "h\x01s."),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(pickle_error(std::string(1'100'000, 'N')), HasSubstr("more than 1000000 values"));
  EXPECT_THAT(pickle_error(std::string(1'100'000, '(')), HasSubstr("more than 1000000 marks"));
  std::string recalls = "Nq\x01";
  for (int i = 0; i < 4'100'000; ++i) recalls += "h\x01";
  EXPECT_THAT(pickle_error(recalls), HasSubstr("more than 4000000 references"));
  std::string laughs =
      std::string("]q") + std::string(1, '\0');  // each list holds the one before it ten times
  for (char i = 0; i < 20; ++i) {
    std::string again;
    for (int copy = 0; copy < 10; ++copy) again += std::string("h") + std::string(1, i);
    laughs += std::string("](") + again + "eq" + std::string(1, static_cast<char>(i + 1));
  }
  EXPECT_THAT(pickle_error(std::string("}") + text("a") + laughs + "s."),
              testing::AnyOf(HasSubstr("the stack"), HasSubstr("dict")));
  EXPECT_THAT(pickle_error(laughs + "0}" + text("a") + "h\x14s."), HasSubstr("more than 1000000 values"));
}

TEST(TorchFile, WrongArchivesAreNamed) {
  const auto message = [](const std::vector<ZipEntry>& entries) {
    const std::string file = zip(entries);
    const auto read = TorchFile::parse(bytes_of(file));
    return read ? std::string("good") : read.error().message;
  };
  EXPECT_THAT(message({{"a/b", "1"}}), HasSubstr("0 entries */data.pkl"));
  EXPECT_THAT(message({{"a/data.pkl", "}."}, {"b/data.pkl", "}."}}), HasSubstr("2 entries */data.pkl"));
  EXPECT_THAT(message({{"a/data.pkl", "}.", 8}}), HasSubstr("entry a/data.pkl is compressed"));
  EXPECT_THAT(message({{"a/data.pkl", "}."}, {"a/byteorder", "big"}}), HasSubstr("byte order \"big\""));
  EXPECT_EQ(message({{"a/data.pkl", "}."}, {"a/byteorder", "little"}}), "good");
  std::string tar(600, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(TorchFile::parse(bytes_of(tar)).error().message, HasSubstr("before 1.6 (a tar file)"));
}

}  // namespace
}  // namespace saccade
