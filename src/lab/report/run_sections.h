// The sections of a report, a file each; run_page.cc puts them together.
#pragma once

#include <array>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lab/report/page_builder.h"
#include "lab/report/run_page.h"
#include "saccade/pages/thumbnail.h"

namespace saccade::lab {

// An evaluation's run with its items and ranks.
struct LoadedRun {
  const Run* run = nullptr;
  std::string name;  // the folder's
  std::map<std::string, RunItems> items;
  std::vector<RunQuery> queries;
};

// All that a page is about.
struct ReportData {
  std::vector<LoadedRun> runs;
  std::vector<const ReportFolder*> trainings;
  // The colour and name of each run's checkpoints: of the same fingerprint and precision they are the same
  // series in all runs.
  std::map<std::pair<const LoadedRun*, std::string>, Series> series;

  // Of a name in a run; "chance", and what the run does not name, is grey.
  [[nodiscard]] Series series_of(const LoadedRun& run, const std::string& model) const;
};
// Pictures that a page needs; each is decoded once.
class PictureShelf {
 public:
  // A number for the picture, to ask for it once all have been decoded.
  size_t add(const ImageRef& image);
  // kCancelled. Decides which are left out by their order, whatever the number of threads.
  Status decode(const RunPageOptions& options, ThreadPool& pool, const ProgressCallback& progress,
                const std::stop_token& stop);
  [[nodiscard]] const Thumbnail& at(size_t number) const { return thumbnails_[number]; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<ImageRef> images_;
  std::vector<Thumbnail> thumbnails_;
};

// "text \u2192 image".
std::string_view direction_words(Direction direction);
inline constexpr std::array kBothDirections = {Direction::kTextToImage, Direction::kImageToText};
// The first `characters` of a text, "..." behind what is cut.
std::string shortened(std::string_view text, size_t characters);
// "cannot be told apart", or which is better.
Cell verdict_cell(const Json& difference, const std::string& a, const std::string& b, bool lower_is_better);

// Each is empty where the runs have nothing for it.
std::string protocol_section(const ReportData& data);
std::string retrieval_section(const ReportData& data, PageBuilder& page);
Result<std::string> examples_section(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                     const ProgressCallback& progress, const std::stop_token& stop);
Result<std::string> composed_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                     ThreadPool& pool, const ProgressCallback& progress,
                                     const std::stop_token& stop);
// The part of it that shows queries with their pictures.
Result<std::string> composed_examples(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                      const ProgressCallback& progress, const std::stop_token& stop);
std::string edits_section(const ReportData& data, PageBuilder& page);
std::string composition_section(const ReportData& data, PageBuilder& page);
std::string matches_section(const ReportData& data, PageBuilder& page);
std::string speed_section(const ReportData& data, PageBuilder& page);
Result<std::string> heads_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                  ThreadPool& pool, const ProgressCallback& progress,
                                  const std::stop_token& stop);
std::string length_section(const ReportData& data, PageBuilder& page);
Result<std::string> visualness_section(const ReportData& data, PageBuilder& page);
Result<std::string> maps_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                 ThreadPool& pool, const ProgressCallback& progress,
                                 const std::stop_token& stop);
std::string training_section(const ReportData& data, PageBuilder& page);

}  // namespace saccade::lab
