// What others exported: items.jsonl, a zero byte, export.json, a zero byte, rows.npy; brought into a collection and exported
// again.
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/exchange.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/npy.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/hash.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 34> kWords = {
    "path",
    "hash",
    "size",
    "mtime_ns",
    "width",
    "height",
    "format",
    "caption",
    "taken",
    "zone_minutes",
    "camera",
    "lens",
    "latitude",
    "longitude",
    "place",
    "rating",
    "title",
    "description",
    "keywords",
    "look",
    "grain",
    "looked_into",
    "pixels",
    "everything",
    "jpeg",
    "/nowhere/a.jpg",
    "2019-07-14T21:30:00",
    "0123456789abcdef",
    "checkpoint",
    "fingerprint",
    "dim",
    "name",
    "a.jpg#t=10",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
constexpr std::array<std::string_view, 20> kHeaderWords = {
    "'descr': ", "'<f4'",     "'<f8'",  "'<f2'", "'>f4'",  "'fortran_order': ",        "True",
    "False",     "'shape': ", "(2, 8)", "(2,)",  "(0, 8)", "(4294967296, 4294967296)", "(-1, 8)",
    "{",         "}",         ",",      "(",     ")",      "9999999999999999999"};

std::string mutated_items(std::string_view text, SplitMix& random) {
  const size_t line = text.find('\n');
  if (line == std::string_view::npos || random.below(4) == 0) return mutate_json(text, kWords, random);
  if (random.below(2) == 0)
    return std::string(text.substr(0, line + 1)) + mutated_items(text.substr(line + 1), random);
  return mutate_json(text.substr(0, line), kWords, random) + std::string(text.substr(line));
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static const TemporaryFolder base = TemporaryFolder::make().value();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t first = std::min(input.find('\0'), input.size());
  const size_t second = std::min(input.find('\0', first + 1), input.size());
  const fs::path from = base.path() / "from";
  fs::remove_all(base.path() / "c");
  fs::remove_all(base.path() / "to");
  fs::remove_all(from);
  fs::create_directory(from);
  FUZZ_CHECK(write_file_atomic(from / "items.jsonl", input.substr(0, first)));
  const std::string_view header =
      input.substr(std::min(first + 1, input.size()), second - std::min(first + 1, second));
  if (!header.empty()) FUZZ_CHECK(write_file_atomic(from / "export.json", header));
  FUZZ_CHECK(write_file_atomic(from / "rows.npy", input.substr(std::min(second + 1, input.size()))));
  if (const auto rows = read_npy(from / "rows.npy")) {
    FUZZ_CHECK(rows->rows() * rows->columns() == std::ssize(rows->values()));
    FUZZ_CHECK(std::ssize(rows->values()) <= std::ssize(input));
  }
  auto writer = CollectionWriter::create(base.path() / "c", {"fake", "/nowhere", sha256_hex("fake"), 8});
  FUZZ_CHECK(writer);
  static ThreadPool pool(1);
  const auto imported = import_rows(*writer, from, {.limits = {}, .no_files = size % 2 == 0}, pool);
  if (!imported) {
    FUZZ_CHECK(!imported.error().message.empty());
    return 0;
  }
  const auto collection = CollectionReader::open(base.path() / "c");
  FUZZ_CHECK(collection && collection->item_count() == imported->added);
  const auto exported = export_collection(*collection, base.path() / "to");
  FUZZ_CHECK(exported && *exported == imported->added);
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  const std::array<Mutation, 3> kinds = {
      [&](std::string_view text) { return mutated_items(text, random); },
      [&](std::string_view text) { return mutate_json(text, kWords, random); },
      [&](std::string_view text) { return mutate_tokens(text, kHeaderWords, random); },
  };
  // rows.npy is all behind the second zero, whatever zeros are in it.
  const size_t first = std::min(input.find('\0'), input.size());
  const size_t second = std::min(input.find('\0', first + 1), input.size());
  if (random.below(3) == 0 && second < input.size()) {
    const size_t end = std::min(input.find('\n', second), input.size());
    return input.substr(0, second + 1) +
           kinds[2](std::string_view(input).substr(second + 1, end - second - 1)) + input.substr(end);
  }
  return mutate_part(std::string_view(input).substr(0, second), '\0', std::span(kinds).first(2), random) +
         input.substr(second);
}
