// Records of datasets: CSV, tar archives, JSON taken apart by record, and manifests. The first byte of an
// input chooses which.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/readers/json_records.h"
#include "lab/data/readers/manifest.h"
#include "lab/data/readers/tar.h"
#include "saccade/core/files/csv.h"

#include "fuzz.h"
#include "mutators.h"

using namespace saccade;
using namespace saccade::lab;
using namespace saccade::lab::data;

namespace {

// Checks that parsed records are the same after being written and parsed again.
void try_csv(std::string_view text, char separator) {
  CsvReader reader(text, separator);
  std::vector<std::string> fields;
  int64_t line = 0;
  for (;;) {
    const auto more = reader.next(fields);
    if (!more || !*more) return;
    FUZZ_CHECK(!fields.empty() && reader.line() > line);
    line = reader.line();
    const std::string written = format_csv(fields, separator);
    CsvReader again(written, separator);
    std::vector<std::string> same;
    FUZZ_CHECK(again.next(same).value_or(false) && same == fields);
    FUZZ_CHECK(!again.next(same).value_or(true));
  }
}

void try_tar(std::string_view archive) {
  const auto check = [&](const TarMember& member) -> Status {
    FUZZ_CHECK(!member.name.empty() && member.offset >= 512 && member.size >= 0);
    FUZZ_CHECK(member.size <= static_cast<int64_t>(archive.size()) - member.offset);
    return {};
  };
  (void)for_each_tar_member(std::as_bytes(std::span(archive)), check);
}

// Checks that the scanner finds the same elements as the parser, if the parser accepts the whole array.
void try_json(std::string_view text) {
  const auto outline = outline_json(text);
  if (outline) (void)has_keys(outline->value, {"a"});
  const auto whole = parse_json(text);
  Json elements = Json::array();
  const Status walked = for_each_element(text, [&](int64_t, std::string_view element) -> Status {
    SACCADE_ASSIGN(elements.emplace_back(), parse_json(element));
    return {};
  });
  if (whole && whole->is_array()) FUZZ_CHECK(walked && elements == *whole);
  if (whole && !whole->is_array()) FUZZ_CHECK(!walked);
}

void try_manifest(std::string_view text) {
  const auto dataset = parse_manifest(text, "/data");
  if (!dataset) return;
  const auto written = format_manifest(*dataset, "/data");
  if (!written) return;  // a path longer than the system takes
  const auto again = parse_manifest(*written, "/data");
  FUZZ_CHECK(again && again->kind() == dataset->kind() && again->size() == dataset->size());
  const auto* images = dataset->find<CaptionedImages>();
  for (size_t i = 0; images != nullptr && i < images->items.size(); ++i) {
    const DatasetItem& item = again->as<CaptionedImages>().items[i];
    FUZZ_CHECK(item.id == images->items[i].id && item.captions == images->items[i].captions);
  }
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'C':
      try_csv(text, ',');
      break;
    case 'T':
      try_csv(text, '\t');
      break;
    case 'A':
      try_tar(text);
      break;
    case 'J':
      try_json(text);
      break;
    default:
      try_manifest(text);
  }
  return 0;
}

namespace {

constexpr std::array<std::string_view, 12> kCsvTokens = {
    ",", "\t", "\"", "\"\"", "\r\n", "\n", "\r", "a", "\xef\xbb\xbf", " ", "image", "caption"};
constexpr std::array<std::string_view, 20> kJsonWords = {
    "id",     "image", "captions", "split", "test",  "group", "path",     "member", "offset", "size",
    "images", "kind",  "swap",     "0.tar", "a.jpg", "../x",  "relation", "target", "text",   "candidates"};

// Headers of 512 bytes: a field of one is changed, and its sum mostly fits again.
std::string mutate_tar(std::string text, saccade::SplitMix& random) {
  if (text.size() < 512) return text + std::string(512 - text.size(), '\0');
  const size_t block = random.below(static_cast<uint32_t>(text.size() / 512)) * 512;
  constexpr std::array<std::string_view, 12> kValues = {"L",
                                                        "x",
                                                        "g",
                                                        "5",
                                                        "0",
                                                        "S",
                                                        "77777777777",
                                                        "00000000001",
                                                        "\x80",
                                                        "././@LongLink",
                                                        "17 path=../../b\n",
                                                        "size="};
  constexpr std::array<size_t, 6> kPlaces = {0, 124, 156, 257, 345, 100};
  const std::string_view value = kValues[random.below(kValues.size())];
  const size_t place = block + kPlaces[random.below(kPlaces.size())];
  text.replace(place, value.size(), value);
  if (random.below(4) == 0) text.insert(block, text.substr(block, 512 * (1 + random.below(3))));
  if (block + 512 > text.size() || random.below(8) == 0) return text;
  text.replace(block + 148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = block; i < block + 512; ++i) sum += static_cast<uint8_t>(text[i]);
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%06o", sum);
  text.replace(block + 148, 7, digits.data(), 7);
  return text;
}

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  if (input.empty()) return "M{}";
  const std::string_view text = std::string_view(input).substr(1);
  switch (input[0]) {
    case 'C':
    case 'T':
      return input[0] + mutate_tokens(text, kCsvTokens, random);
    case 'A':
      return input[0] + mutate_tar(std::string(text), random);
    case 'J':
      return input[0] + mutate_json(text, kJsonWords, random);
    default: {
      const std::array<Mutation, 1> json = {
          [&](std::string_view line) { return mutate_json(line, kJsonWords, random); }};
      return input[0] + mutate_part(text, '\n', json, random);
    }
  }
}
