// Effective text length of a checkpoint, measured by `eval length` and stored beside its weights. Search
// warns about texts that are longer.
//
// saccade.json in the checkpoint's folder:
//
//   {"effective_length": [{"fingerprint": ..., "dataset": ..., "tokens": 14, ...}, ...]}
//
// with the fields of MeasuredLength, one entry per dataset. It does not affect the encoder's output, so the
// fingerprint does not cover it. An entry is valid only for the fingerprint it names. README.md, the model
// card, gets the same data as a section between two comments. Other keys of saccade.json and all other
// contents of README.md are preserved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

// Effective length of one checkpoint on one dataset, texts to images. Counts a text's own tokens, without
// start and end.
struct MeasuredLength {
  std::string fingerprint = {};  // fingerprint of the checkpoint
  std::string precision = {};    // "fp32", "bf16"
  std::string dataset = {};
  std::string dataset_sha256 = {};
  std::string domain = {};  // domain of the dataset's texts, in a word; may be empty
  int64_t images = 0;
  int64_t texts = 0;
  int64_t tokens = 0;  // with which R@1 first reaches `share` of its largest value
  std::optional<int64_t> low = {};
  std::optional<int64_t> high = {};
  double confidence = 0.95;
  double share = 0.95;
  double r1 = 0;            // the largest
  bool at_end = false;      // there was no more text to measure with
  int64_t longest = 0;      // tokens of the longest text
  double longer_texts = 0;  // share of the texts that have more than `tokens`
};

// Reads the entries of that fingerprint from saccade.json, in file order; empty without the file. kBadData
// names file and field.
Result<std::vector<MeasuredLength>> read_measured_lengths(const std::filesystem::path& checkpoint,
                                                          std::string_view fingerprint);

// Returns the measurement that search uses: the longest. A model that reads this much of one dataset's texts
// is able to; a shorter length elsewhere reflects the texts there.
std::optional<MeasuredLength> longest_measured(const std::vector<MeasuredLength>& lengths);

// Adds entries to saccade.json, replacing those for the same datasets. Entries of other fingerprints are
// removed, because their weights are gone. Then writes the section in README.md, which is created if missing
// and skipped if it is a link (of a hub's cache). Each file is replaced atomically. All entries must be of
// one fingerprint. Returns kBadData for a saccade.json that is not an object, and kIo if the folder cannot be
// written.
Status write_measured_lengths(const std::filesystem::path& checkpoint,
                              const std::vector<MeasuredLength>& lengths);

Json measured_length_json(const MeasuredLength& length);
// Formats for people: "14 tokens (11 to 17) give 95% of the best R@1, on ucm-test (aerial)".
std::string measured_length_text(const MeasuredLength& length);

}  // namespace saccade
