// Collections whose files, calibration data among them, were changed: opened, looked through, verified, then written to. An input is a list of changes of
// a small sound collection: the first byte chooses which, then each change is a file (1 byte), an operation (1), a place
// (4, little-endian), a length (1) and so many bytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/verify.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/hash.h"
#include "saccade/index/late_rows.h"
#include "saccade/search/matching/background.h"

#include "fuzz.h"

namespace {

using namespace saccade;
namespace fs = std::filesystem;

constexpr int64_t kDim = 8;
constexpr int kItems = 6;

CollectionChange::Put put_of(int number, bool late) {
  CollectionChange::Put put;
  put.item.path = fmt::format("/nowhere/{}.jpg", number);
  put.item.hash = sha256_hex(std::to_string(number));
  put.item.size = 100 + number;
  put.item.width = 640;
  put.item.height = 480;
  put.item.format = "jpeg";
  put.item.caption = number % 2 == 0 ? "a red bell" : "two cats in a caf\u00e9";
  put.values.assign(kDim, 0);
  put.values[static_cast<size_t>(number % kDim)] = 1;
  ItemFacts facts;
  facts.picture.camera = "Canon EOS R5";
  facts.picture.keywords = {"Paris", "night"};
  put.facts = facts;
  if (late) {
    Matrix<float> rows(1 + number % 3, kDim);
    for (int64_t r = 0; r < rows.rows(); ++r) rows(r, r) = 1;
    put.late.resize(static_cast<size_t>(rows.rows() * stored_row_bytes({RowPrecision::kFp16, kDim})));
    store_rows(rows.view(), RowPrecision::kFp16, put.late);
  }
  return put;
}

Background background_of_both_kinds() {
  Background background;
  background.fingerprint = sha256_hex("fake");
  background.items = kItems;
  background.texts.separation = 1;
  for (Background::Kind* kind : {&background.text, &background.picture}) {
    kind->surroundings.mean_query.assign(kDim, 0.25F);
    kind->surroundings.sample = Matrix<float>(2, kDim);
    kind->model.tells = true;
    kind->model.best = kind->model.false_score = {1, 2};
    kind->model.false_count = {2, 1};
  }
  return background;
}

struct File {
  std::string name;
  std::string bytes;
};

// A sound collection's files in the order of their names, then its calibration data.
std::vector<File> files_of(const fs::path& folder, bool late) {
  IngestSettings settings;
  settings.int8_rows = Int8Policy::kOn;
  if (late) settings.late = LateSettings{RowPrecision::kFp16, 1, {2, 2}};
  {
    auto writer = CollectionWriter::create(folder, {"fake", "/nowhere", sha256_hex("fake"), kDim}, settings);
    FUZZ_CHECK(writer);
    CollectionChange change;
    for (int i = 0; i < kItems; ++i) change.puts.push_back(put_of(i, late));
    change.failures.push_back(
        {.path = "/nowhere/broken.png", .code = ErrorCode::kBadData, .reason = "cut off"});
    FUZZ_CHECK(writer->commit(change));
    const std::array<int64_t, 1> removed = {3};
    FUZZ_CHECK(writer->remove_ids(removed));
  }
  std::vector<File> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.push_back({entry.path().filename().string(), read_file(entry.path()).value()});
  }
  std::ranges::sort(files, {}, &File::name);
  FUZZ_CHECK(write_background(folder, background_of_both_kinds()));
  files.push_back({std::string(kBackgroundName), read_file(folder / kBackgroundName).value()});
  return files;
}

class Collections {
 public:
  Collections()
      : folder_(TemporaryFolder::make().value()),
        plain_(files_of(folder_.path() / "plain", false)),
        late_(files_of(folder_.path() / "late", true)) {}
  [[nodiscard]] const std::vector<File>& files(bool late) const { return late ? late_ : plain_; }
  // The folder "c" with these files alone.
  [[nodiscard]] fs::path write(const std::vector<File>& files) const {
    const fs::path folder = folder_.path() / "c";
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (const File& file : files) {
      std::FILE* stream = std::fopen((folder / file.name).c_str(), "wb");
      FUZZ_CHECK(stream != nullptr);
      std::fwrite(file.bytes.data(), 1, file.bytes.size(), stream);
      std::fclose(stream);
    }
    return folder;
  }

 private:
  TemporaryFolder folder_;
  std::vector<File> plain_;
  std::vector<File> late_;
};

enum Operation : uint8_t { kReplace, kInsert, kErase, kCut, kFill, kRemoveFile, kOperations };

void change(std::vector<File>& files, uint8_t which, uint8_t operation, size_t place, std::string_view bytes,
            uint8_t length) {
  if (files.empty()) return;
  File& file = files[which % files.size()];
  place = file.bytes.empty() ? 0 : place % file.bytes.size();
  const size_t count = std::min<size_t>(length, file.bytes.size() - place);
  switch (operation % kOperations) {
    case kReplace:
      file.bytes.replace(place, std::min(bytes.size(), file.bytes.size() - place), bytes);
      break;
    case kInsert:
      file.bytes.insert(place, bytes);
      break;
    case kErase:
      file.bytes.erase(place, count);
      break;
    case kCut:
      file.bytes.resize(place);
      break;
    case kFill:
      std::fill_n(file.bytes.begin() + static_cast<std::ptrdiff_t>(place), count, '\xff');
      break;
    default:
      files.erase(files.begin() + which % static_cast<std::ptrdiff_t>(files.size()));
  }
}

void read_all(const CollectionReader& collection) {
  const MatrixView<const float> rows = collection.rows();
  FUZZ_CHECK(std::ssize(collection.alive()) == rows.rows() && std::ssize(collection.ids()) == rows.rows());
  FUZZ_CHECK(rows.columns() == collection.info().checkpoint.dim);
  float sum = 0;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    for (const float value : rows.row(r)) sum += value;  // every byte can be read
    if (!collection.has_late_rows()) continue;
    const StoredRows stored = collection.late_rows(r);
    if (collection.alive()[static_cast<size_t>(r)] != 0) (void)restore_rows(stored);
  }
  FUZZ_CHECK(!std::isinf(sum) || std::isinf(sum));  // used
  std::vector<int64_t> ids;
  (void)collection.for_each_item([&](const Item& item) -> Status {
    ids.push_back(item.id);
    return {};
  });
  for (const int64_t id : ids) {
    const auto item = collection.item(id);
    (void)collection.facts(id);
    if (item && item->row >= 0 && item->row < rows.rows()) (void)collection.item_of_row(item->row);
  }
  (void)collection.summary();
  (void)collection.failures();
  (void)collection.removed();
  (void)collection.looked(100);
  (void)collection.values_of("camera", 10);
  for (const char* text :
       {"width > 100 and format = jpeg", "camera ~ canon", "keyword = paris or caption ~ cats"}) {
    const Filter filter = parse_filter(text).value();
    const auto allowed = collection.allowed(filter);
    FUZZ_CHECK(!allowed || std::ssize(*allowed) == rows.rows());
    (void)collection.why_empty(filter);
  }
  const std::array<std::string, 2> terms = {"red bell", "cats"};
  (void)collection.match_words(terms);
  const auto background = read_background(collection);
  if (!background) {
    FUZZ_CHECK(!background.error().message.empty());
    return;
  }
  for (const Background::Kind* kind : {&background->text, &background->picture}) {
    FUZZ_CHECK(kind->model.false_score.size() == kind->model.false_count.size());
    FUZZ_CHECK(kind->surroundings.mean_query.empty() ||
               kind->surroundings.sample.columns() == rows.columns());
  }
}

void write_some(const fs::path& folder) {
  auto writer = CollectionWriter::open(folder);
  if (!writer) {
    FUZZ_CHECK(!writer.error().message.empty());
    return;
  }
  if (writer->info().checkpoint.dim != kDim) return;
  CollectionChange change;
  change.puts.push_back(put_of(7, writer->info().settings.late.has_value()));
  (void)writer->commit(change);
  (void)writer->find_path("/nowhere/7.jpg");
  (void)writer->compact();
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static const Collections collections;
  if (size == 0) return 0;
  std::vector<File> files = collections.files(data[0] % 2 == 1);
  size_t at = 1;
  for (int changes = 0; at + 7 <= size && changes < 64; ++changes) {
    uint32_t place = 0;
    std::memcpy(&place, data + at + 2, sizeof place);
    const uint8_t length = data[at + 6];
    const size_t count = std::min<size_t>(length, size - at - 7);
    const std::string_view bytes(reinterpret_cast<const char*>(data) + at + 7, count);
    change(files, data[at], data[at + 1], place, bytes, length);
    at += 7 + count;
  }
  const fs::path folder = collections.write(files);
  if (const auto collection = CollectionReader::open(folder)) {
    read_all(*collection);
  } else {
    FUZZ_CHECK(!collection.error().message.empty());
  }
  ThreadPool pool(1);
  const auto report = verify_collection(folder, {}, pool);
  FUZZ_CHECK(report || !report.error().message.empty());
  write_some(folder);
  return 0;
}

// Another change at the end, a change less, or a change of one of the values that files' formats live by.
std::string fuzz_mutate(std::string input, SplitMix& random) {
  if (input.empty()) input.push_back(static_cast<char>(random.below(2)));
  std::vector<size_t> begins;
  for (size_t at = 1; at + 7 <= input.size(); at += 7 + static_cast<uint8_t>(input[at + 6]))
    begins.push_back(at);
  if (begins.size() > 6 || (!begins.empty() && random.below(4) == 0)) {
    const size_t which = random.below(static_cast<uint32_t>(begins.size()));
    const size_t end = which + 1 < begins.size() ? begins[which + 1] : input.size();
    return input.erase(begins[which], end - begins[which]);
  }
  std::string added;
  added.push_back(static_cast<char>(random.below(8)));
  added.push_back(
      static_cast<char>(random.below(2) == 0 ? kReplace : static_cast<Operation>(random.below(kOperations))));
  // Near the beginning of a page, where SQLite's headers are, or anywhere.
  const uint64_t place =
      random.below(2) == 0 ? random.below(64) * 4096 + random.below(120) : random.below(1 << 18);
  for (int byte = 0; byte < 4; ++byte) added.push_back(static_cast<char>(place >> (8 * byte)));
  constexpr std::array<std::string_view, 10> kWords = {
      "-1", "9223372036854775807", "\"dim\": 0", "fp16", "null", "UPDATE", "rows",
      "{",  "\x7f\xff\xff\xff",    "1e30"};
  std::string bytes(kWords[random.below(kWords.size())]);
  if (random.below(2) == 0) {
    bytes.assign(size_t{1} << random.below(4), static_cast<char>(random.below(256)));
    if (random.below(2) == 0) bytes[0] = static_cast<char>(0x80);
  }
  added.push_back(static_cast<char>(bytes.size()));
  return input + added + bytes;
}
