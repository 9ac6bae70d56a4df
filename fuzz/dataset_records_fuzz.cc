// Fuzzer of datasets' records: CSV, tar archives, JSON split into records, and manifests. The first byte of
// an input selects which.
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/csv.h"
#include "lab/data/readers/json_records.h"
#include "lab/data/readers/manifest.h"
#include "lab/data/readers/tar.h"

#include "fuzz.h"

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
  FUZZ_CHECK(again && again->items.size() == dataset->items.size());
  FUZZ_CHECK(again->compositions.size() == dataset->compositions.size());
  for (size_t i = 0; i < again->items.size(); ++i) {
    FUZZ_CHECK(again->items[i].id == dataset->items[i].id &&
               again->items[i].captions == dataset->items[i].captions);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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
