// Base of studies whose task is made from the captioned images of a dataset that can be read. Each measures a model on a task
// at once, and has one result a model.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Metrics: metrics.json of the kind, with a list `results`.
template <typename Task, typename Metrics>
class CaptionedStudy : public Study {
 public:
  // Borrows `options`.
  explicit CaptionedStudy(const EvaluationOptions& options) : options_(options) {}

  [[nodiscard]] std::string_view kind() const override { return Metrics::kKind; }
  // Adds a dataset. Returns kUsage for tests of composition, and for a dataset without captions.
  Status add_dataset(const NamedDataset& dataset) override {
    SACCADE_ASSIGN(const CaptionedImages* images, dataset.dataset.need<CaptionedImages>());
    const auto has_captions = [](const DatasetItem& item) {
      return std::ranges::any_of(item.captions, [](const std::string& text) { return !text.empty(); });
    };
    if (std::ranges::none_of(images->items, has_captions)) {
      return fail(ErrorCode::kUsage, "{}: no captions: nothing says which hits are right", dataset.name);
    }
    datasets_.push_back({.items = images->items});
    return {};
  }
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override {
    return image_list(datasets_[dataset].items);
  }
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override {
    Metrics metrics;
    for (size_t d = 0; d < datasets_.size(); ++d) {
      for (auto result : datasets_[d].results) {
        result.dataset = datasets[d].name;
        metrics.results.push_back(std::move(result));
      }
    }
    return record_json(metrics);
  }

 protected:
  struct Asked {
    std::vector<DatasetItem> items;
    Task task = {};
    decltype(Metrics::results) results = {};  // without the dataset's name
  };

  // Returns the images that can be read, in a settled task of groups. kBadData if there are none.
  static Result<SettledTask> readable(const Asked& asked, std::span<const int64_t> unreadable) {
    SettledTask settled;
    settled.cluster = "group";
    for (int64_t i = 0; i < std::ssize(asked.items); ++i) {
      if (!std::ranges::binary_search(unreadable, i)) settled.pictures.push_back(i);
    }
    if (settled.pictures.empty()) return fail(ErrorCode::kBadData, "no image can be read");
    return settled;
  }

  const EvaluationOptions& options_;
  std::vector<Asked> datasets_;
};

}  // namespace saccade::lab
