// Training textual inversion for composed search from texts alone (model/composers/inversion.h). No image is
// read, so that it can be trained for any CLIP that somebody has.
//
// A text's embedding, with noise on it, is mapped to a word. The frozen text tower reads the text with that
// word in place of its keywords. The output is trained to equal the tower's embedding of the text itself, by
// mean squared error (Gu et al. 2023, "Language-only efficient training of zero-shot composed image
// retrieval", section 3).
//
// A run folder holds the loop's files (loop.h); model/ is the composer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "lab/train/options/inversion_options.h"
#include "lab/train/training_summary.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"

namespace saccade::lab {

struct InversionTrainingReport : TrainingSummary {
  double texts_per_second = 0;        // rate of this call, evaluations included
  int64_t texts = 0;                  // learned from
  int64_t repeated = 0;               // lines that were there before
  int64_t cut = 0;                    // texts longer than the encoder reads
  Json held_out = Json::array();      // figures of the best step
  Json test = Json::array();          // figures of the best step, once all steps are done
  std::vector<std::string> left_out;  // held-out images that could not be read
  std::filesystem::path model;
};
// Returns the output of `train composed --method inversion --json`.
Json inversion_training_json(const InversionTrainingReport& report);

// Trains textual inversion. When `stop` is requested, it saves its state and returns with `finished` false.
// Errors: kUsage names the option; kUnsupported for an encoder other than CLIP with a text tower of words;
// kMismatch for another training's folder; kBadData for fewer texts than a batch. Cost per step: two forward
// passes and one backward pass of the text tower over a batch.
Result<InversionTrainingReport> train_inversion(const InversionTrainingOptions& options,
                                                const ProgressCallback& progress, std::stop_token stop);

}  // namespace saccade::lab
