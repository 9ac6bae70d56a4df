// The sections of a report, one file each; run_page.cc combines them.
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

// Returns "text \u2192 image" or its reverse.
std::string_view direction_words(Direction direction);
inline constexpr std::array kBothDirections = {Direction::kTextToImage, Direction::kImageToText};
// Returns the first `characters` of a text, with "..." if it was cut.
std::string shortened(std::string_view text, size_t characters);
// Returns "cannot be told apart", or which is better.
Cell verdict_cell(const Json& difference, const std::string& a, const std::string& b, bool lower_is_better);

// The sections. Each is empty if the runs have no data for it.
std::string protocol_section(const ReportData& data);
std::string retrieval_section(const ReportData& data, PageBuilder& page);
Result<std::string> examples_section(const ReportData& data, const RunPageOptions& options, ThreadPool& pool,
                                     const ProgressCallback& progress, const std::stop_token& stop);
Result<std::string> composed_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                     ThreadPool& pool, const ProgressCallback& progress,
                                     const std::stop_token& stop);
// Returns the part of it that shows queries with their images.
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
