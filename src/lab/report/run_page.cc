#include "lab/report/run_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lab/report/image_thumbnail.h"
#include "lab/report/run_sections.h"
#include "saccade/core/counts.h"
#include "saccade/pages/html.h"
#include "saccade/pages/page_style.h"

namespace saccade::lab {
namespace {

constexpr size_t kSeriesColours = 8;
constexpr size_t kChanceColour = 7;  // grey

std::string folder_name(const std::filesystem::path& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

// Assigns colours in the order of the checkpoints. A name that means two checkpoints gets the folder of its
// run appended.
void name_series(ReportData& data) {
  std::map<std::string, Series> by_identity;
  const auto taken = [&](const std::string& text) {
    return std::ranges::any_of(by_identity, [&](const auto& each) { return each.second.name == text; });
  };
  for (const LoadedRun& run : data.runs) {
    std::set<std::string> in_this_run;
    for (const RunCheckpoint& checkpoint : run.run->info.checkpoints) {
      std::string identity = checkpoint.fingerprint + "\n" + checkpoint.precision;
      // Copies of one checkpoint in one run still get a row each.
      if (checkpoint.fingerprint.empty() || !in_this_run.insert(identity).second) {
        identity += "\n" + checkpoint.name;
      }
      auto found = by_identity.find(identity);
      if (found == by_identity.end()) {
        std::string name = checkpoint.name;
        if (taken(name)) name = fmt::format("{} ({})", checkpoint.name, run.name);
        for (int i = 2; taken(name); ++i) name = fmt::format("{} ({}, {})", checkpoint.name, run.name, i);
        const size_t place = by_identity.size();
        const size_t colour = place / kChanceColour * kSeriesColours + place % kChanceColour;
        found = by_identity.emplace(identity, Series{name, colour}).first;
      }
      data.series.emplace(std::pair{&run, checkpoint.name}, found->second);
    }
  }
}

Result<ReportData> load(std::span<const ReportFolder> folders) {
  ReportData data;
  for (const ReportFolder& folder : folders) {
    if (!folder.run) {
      data.trainings.push_back(&folder);
      continue;
    }
    LoadedRun loaded;
    loaded.run = &*folder.run;
    loaded.name = folder_name(folder.folder);
    const auto context = [&] { return folder.folder.string(); };
    if (folder.run->files.contains("items.jsonl")) {
      SACCADE_ASSIGN(loaded.items, read_run_items(*folder.run).in(context()));
    }
    if (folder.run->files.contains("ranks.jsonl")) {
      SACCADE_TRY(read_run_lines(*folder.run, "ranks.jsonl", [&](const Json& line) -> Status {
                    SACCADE_ASSIGN(RunQuery query, parse_run_query(line));
                    loaded.queries.push_back(std::move(query));
                    return {};
                  }).in(context()));
    }
    data.runs.push_back(std::move(loaded));
  }
  name_series(data);
  return data;
}

std::string navigation(const std::string& body) {
  struct Entry {
    std::string_view id;
    std::string_view name;
  };
  constexpr std::array kEntries = {
      Entry{"protocol", "Protocol"},       Entry{"retrieval", "Retrieval"},
      Entry{"composition", "Composition"}, Entry{"composed", "Composed search"},
      Entry{"edits", "Generated edits"},   Entry{"heads", "Heads"},
      Entry{"matches", "Nothing matches"}, Entry{"speed", "Speed"},
      Entry{"length", "Effective length"}, Entry{"visualness", "Visualness"},
      Entry{"queries", "Best and worst"},  Entry{"maps", "Maps"},
      Entry{"training", "Training"},
  };
  std::string html = "<nav aria-label=\"Sections\"><ul>\n";
  for (const Entry& entry : kEntries) {
    if (body.find(fmt::format("<section id=\"{}\"", entry.id)) == std::string::npos) continue;
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", entry.id, entry.name);
  }
  return html + "</ul></nav>\n";
}

bool has_marks_of_scripts(std::string_view script) {
  std::string lower(script);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower.find("</script") != std::string::npos || lower.find("<script") != std::string::npos ||
         lower.find("<!--") != std::string::npos;
}

// Returns a policy under which nothing is fetched, and only the scripts included here run. The text of a
// caption stays text, even if an escape were missing.
std::string security_policy(std::span<const std::string_view> scripts) {
  std::string policy =
      "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
      "form-action 'none'; script-src";
  for (const std::string_view script : scripts) policy += fmt::format(" '{}'", script_hash(script));
  return policy;
}

}  // namespace

Series ReportData::series_of(const LoadedRun& run, const std::string& model) const {
  const auto found = series.find({&run, model});
  return found == series.end() ? Series{model, kChanceColour} : found->second;
}

std::string_view direction_words(Direction direction) {
  return direction == Direction::kTextToImage ? "text \xE2\x86\x92 image" : "image \xE2\x86\x92 text";
}

std::string shortened(std::string_view text, size_t characters) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && seen++ == characters) return std::string(text.substr(0, i)) + "\xE2\x80\xA6";
  }
  return std::string(text);
}

Cell verdict_cell(const Json& difference, const std::string& a, const std::string& b, bool lower_is_better) {
  const Json& apart = json_member(difference, "told_apart");
  const double by = json_number(difference, "difference");
  if (!apart.is_boolean()) return text_cell("");
  if (!apart.get<bool>() || !std::isfinite(by)) {
    return Cell{"<span class=\"tag\">cannot be told apart</span>", {"cannot be told apart"}};
  }
  const std::string words = ((by > 0) != lower_is_better ? a : b) + " is better";
  return Cell{fmt::format("<span class=\"tag apart\">{}</span>", escape_html(words)), {words}};
}

size_t PictureShelf::add(const ImageRef& image) {
  const auto [found, is_new] = numbers_.try_emplace(image.name(), images_.size());
  if (is_new) images_.push_back(image);
  return found->second;
}

Status PictureShelf::decode(const RunPageOptions& options, ThreadPool& pool, const ProgressCallback& progress,
                            const std::stop_token& stop) {
  const auto total = std::min(static_cast<int64_t>(images_.size()), options.max_pictures);
  thumbnails_.assign(images_.size(), Thumbnail{"", "", "left out: the page has as many pictures as it may"});
  std::mutex mutex;
  int64_t done = 0;
  pool.parallel_for(total, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
      const auto at = static_cast<size_t>(i);
      thumbnails_[at] = image_thumbnail(images_[at], options.thumbnail_side, options.limits);
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress({"thumbnails", done, total, ""});
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while making the page");
  int64_t bytes = 0;
  for (Thumbnail& thumbnail : thumbnails_) {
    bytes += std::ssize(thumbnail.url);
    if (bytes > options.max_picture_bytes && !thumbnail.url.empty()) {
      thumbnail = Thumbnail{"", "", "left out: the page has as many bytes of pictures as it may"};
    }
  }
  return {};
}

Result<ReportFolder> read_report_folder(const std::filesystem::path& folder) {
  ReportFolder result;
  result.folder = folder;
  std::error_code error;
  const std::filesystem::path lines = folder / "metrics.jsonl";
  if (!std::filesystem::exists(lines, error)) {
    SACCADE_ASSIGN(result.run, read_run(folder));
    return result;
  }
  SACCADE_ASSIGN(const std::string text, read_file(lines));
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (end > at) {
      SACCADE_ASSIGN(Json line, parse_json(std::string_view(text).substr(at, end - at))
                                    .in(fmt::format("{}: line {}", lines.string(), number)));
      result.evaluations.push_back(std::move(line));
    }
    at = end + 1;
  }
  return result;
}

Result<std::string> run_page(std::span<const ReportFolder> folders, const RunPageOptions& options,
                             ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  if (options.chart_script.find('\r') != std::string::npos) {
    return fail(ErrorCode::kUsage,
                "the charts' script has carriage returns, which browsers read as something else");
  }
  if (has_marks_of_scripts(options.chart_script)) {
    return fail(ErrorCode::kUsage,
                "the charts' script has \"<script\", \"</script\" or \"<!--\" in it, and cannot "
                "stand inside a page");
  }
  SACCADE_ASSIGN(const ReportData data, load(folders));
  PageBuilder page(!options.chart_script.empty());
  std::string body = protocol_section(data);
  body += retrieval_section(data, page);
  body += composition_section(data, page);
  SACCADE_ASSIGN(const std::string composed, composed_section(data, options, page, pool, progress, stop));
  body += composed;
  body += edits_section(data, page);
  SACCADE_ASSIGN(const std::string heads, heads_section(data, options, page, pool, progress, stop));
  body += heads;
  body += matches_section(data, page);
  body += speed_section(data, page);
  body += length_section(data, page);
  SACCADE_ASSIGN(const std::string visualness, visualness_section(data, page));
  body += visualness;
  SACCADE_ASSIGN(const std::string examples, examples_section(data, options, pool, progress, stop));
  body += examples;
  SACCADE_ASSIGN(const std::string maps, maps_section(data, options, page, pool, progress, stop));
  body += maps;
  body += training_section(data, page);

  std::vector<std::string_view> scripts;
  if (!options.chart_script.empty()) scripts.push_back(options.chart_script);
  scripts.push_back(page_script());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<meta name=\"generator\" "
      "content=\"Saccade\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<header><div><h1>{}</h1>\n"
      "<p class=\"soft\">{}</p></div>\n<button type=\"button\" id=\"theme\" hidden>light or dark</button>\n",
      security_policy(scripts), escape_html(options.title), page_style(), report_style(),
      escape_html(options.title), folders.size() == 1 ? "one run" : counted(std::ssize(folders), "run"));
  html += navigation(body) + "</header>\n<main>\n";
  html += body.empty() ? "<section><p class=\"note\">These runs hold nothing to show.</p></section>\n" : body;
  html += "</main>\n<footer>Made by Saccade. This page holds all it needs: nothing is fetched.</footer>\n";
  for (const std::string_view script : scripts) html += fmt::format("<script>{}</script>\n", script);
  return html + "</body>\n</html>\n";
}

}  // namespace saccade::lab
