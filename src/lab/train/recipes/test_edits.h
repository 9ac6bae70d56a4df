// Edit queries over the coloured shapes of math/test_shapes.h, "in green", and trainings on them.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/train/math/test_shapes.h"
#include "lab/train/recipes/train_composed.h"

namespace saccade::lab::test {

inline const std::vector<std::string>& shape_colours() {
  static const std::vector<std::string> colours = {"red", "green", "blue", "yellow"};
  return colours;
}

// Returns a manifest of all changes of colour of these shapes: 24 queries a shape, a group per image's shape
// and copy. The query "red-bar-0-green" asks for "in green" or "make it green" from the reference
// "red-bar-0".
inline std::string shape_edits(const std::vector<std::string>& shapes) {
  std::string lines;
  for (const std::string& shape : shapes) {
    for (int copy = 0; copy < 2; ++copy) {
      for (const std::string& from : shape_colours()) {
        lines +=
            fmt::format("{{\"picture\": \"{0}-{1}-{2}.png\", \"id\": \"{0}-{1}-{2}\", \"gallery\": \"g\"}}\n",
                        from, shape, copy);
      }
    }
  }
  for (const std::string& shape : shapes) {
    for (int copy = 0; copy < 2; ++copy) {
      for (const std::string& from : shape_colours()) {
        for (const std::string& to : shape_colours()) {
          if (from == to) continue;
          lines += fmt::format(
              "{{\"id\": \"{0}-{1}-{2}-{3}\", \"reference\": \"{0}-{1}-{2}\", \"texts\": [\"in {3}\"], "
              "\"paraphrases\": [\"make it {3}\"], \"targets\": [\"{3}-{1}-{2}\"], \"gallery\": \"g\", "
              "\"group\": \"{1}-{2}\"}}\n",
              from, shape, copy, to);
        }
      }
    }
  }
  return lines;
}

// Three shapes to train on, the fourth to measure on.
class ShapeEdits : public testing::Test {
 protected:
  ShapeEdits() {
    data_.folder().write("train.jsonl", shape_edits({"square", "post", "frame"}));
    // Its two copies differ, so that no target ties with its copy.
    data_.folder().write("held.jsonl", shape_edits({"bar"}));
  }
  // Returns options of a training of the starter on these, in batches of 24.
  [[nodiscard]] ComposedTrainingOptions shape_options(const std::string& run) const {
    ComposedTrainingOptions options;
    options.datasets = {(data_.folder() / "train.jsonl").string()};
    options.held_out = {(data_.folder() / "held.jsonl").string()};
    options.model = (std::filesystem::path(kSourceDir) / "models/starter").string();
    options.run = data_.folder() / run;
    options.evaluate_every = 20;
    options.checkpoint_every = 10;
    options.batch = 24;
    options.bootstrap.resamples = 50;
    options.encoder.threads = 1;  // tests run side by side
    return options;
  }
  static ComposedTrainingReport train(const ComposedTrainingOptions& options, std::stop_token stop = {},
                                      const ProgressCallback& progress = {}) {
    auto report = train_composed(options, progress, stop);
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(ComposedTrainingReport{});
  }
  static std::string refusal(const ComposedTrainingOptions& options, ErrorCode code) {
    const auto report = train_composed(options, {}, {});
    EXPECT_FALSE(report);
    if (report) return {};
    EXPECT_EQ(report.error().code, code) << report.error().message;
    return report.error().message;
  }

  SmallData data_;
};

}  // namespace saccade::lab::test
