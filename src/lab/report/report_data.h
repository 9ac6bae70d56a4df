// Data of a report's page, and what its sections share. Internal to the module.
#pragma once

#include <array>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lab/eval/answers/answers.h"
#include "lab/eval/composed/composed_metrics.h"
#include "lab/eval/edits/edits_metrics.h"
#include "lab/eval/head_metrics.h"
#include "lab/eval/length/length_metrics.h"
#include "lab/eval/matches/matches_metrics.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/speed_metrics.h"
#include "lab/eval/visualness/visualness_metrics.h"
#include "lab/eval/winoground/composition_metrics.h"
#include "lab/report/page_builder.h"
#include "lab/report/report_folder.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/pages/thumbnail.h"
#include "saccade/progress.h"

namespace saccade::lab {

// metrics.json of the kinds that have a section. A run of another kind has none.
using RunMetrics =
    std::variant<std::monostate, RetrievalMetrics, CompositionMetrics, LengthMetrics, ComposedMetrics,
                 SpeedMetrics, VisualnessMetrics, EditsMetrics, MatchesMetrics, AnswersMetrics, HeadsMetrics>;

// An evaluation's run with its figures, items and ranks.
struct LoadedRun {
  const Run* run = nullptr;
  std::string name;  // the folder's
  RunMetrics metrics;
  std::map<std::string, RunItems> items;
  std::vector<RunQuery> queries;

  [[nodiscard]] bool has_checkpoint(const std::string& model) const;
};

// All data of a page.
struct ReportData {
  std::vector<LoadedRun> runs;
  std::vector<const ReportFolder*> trainings;
  // Colour and name of each run's checkpoints. Those with the same fingerprint and precision are the same
  // series in all runs.
  std::map<std::pair<const LoadedRun*, std::string>, Series> series;

  // Returns the series of a name in a run; "chance", and names that the run lacks, are grey.
  [[nodiscard]] Series series_of(const LoadedRun& run, const std::string& model) const;
};
// Reads the figures, items and ranks of all runs, and gives their checkpoints names and colours. `folders` is borrowed.
Result<ReportData> load_report_data(std::span<const ReportFolder> folders);

// Images of a page; each is decoded once.
class PictureShelf {
 public:
  // Adds an image and returns its number, by which it is requested once all have been decoded.
  size_t add(const ImageRef& image);
  // Decodes the images, or returns kCancelled. Their order decides which are left out, whatever the number of
  // threads.
  Status decode(const RunPageOptions& options, ThreadPool& pool, const ProgressCallback& progress,
                const std::stop_token& stop);
  [[nodiscard]] const Thumbnail& at(size_t number) const { return thumbnails_[number]; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<ImageRef> images_;
  std::vector<Thumbnail> thumbnails_;
};

// Returns the tile of an image, with its id as its title.
std::string tile_html(const Thumbnail& thumbnail, const std::string& id);
// Returns "text \u2192 image" or its reverse.
std::string_view direction_words(Direction direction);
// Returns the first `characters` of a text, with "..." if it was cut.
std::string shortened(std::string_view text, size_t characters);

}  // namespace saccade::lab
