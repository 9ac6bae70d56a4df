// Test utilities for datasets' layouts: reading them, or the error.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lab/data/dataset.h"
#include "lab/data/read_dataset.h"
#include "lab/data/readers/manifest.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab::test {

using namespace saccade::test;

// Reads folder/name#keys; converts it to a manifest and back, which must change nothing.
inline Dataset read(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  const auto source = parse_dataset_source((folder.path() / name).string() + keys);
  auto dataset = read_dataset(*source);
  EXPECT_TRUE(dataset) << dataset.error().message;
  if (!dataset) return {};
  const auto manifest = format_manifest(*dataset, folder.path());
  EXPECT_TRUE(manifest) << manifest.error().message;
  const auto again = read_dataset(folder.write("converted.jsonl", *manifest));
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->content == dataset->content);
  EXPECT_EQ(again->hash, dataset->hash);
  EXPECT_EQ(again->layout, "manifest");
  std::filesystem::remove(folder.path() / "converted.jsonl");
  return *std::move(dataset);
}

inline std::string error_of(const TestFolder& folder, const std::string& name, const std::string& keys = "") {
  const auto source = parse_dataset_source((folder.path() / name).string() + keys);
  const auto dataset = read_dataset(*source);
  EXPECT_FALSE(dataset);
  return dataset ? "" : dataset.error().message;
}

// Returns what a dataset leaves out, each as "1 reason (first example)".
inline std::vector<std::string> excluded(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const Exclusion& exclusion : dataset.excluded) {
    all.push_back(fmt::format("{} {} ({})", exclusion.count, exclusion.reason, exclusion.examples.front()));
  }
  return all;
}

}  // namespace saccade::lab::test
