// saccade model list: the checkpoints on this machine, by their configs and the headers of their weights.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/hub/cache.h"
#include "saccade/hub/select.h"
#include "saccade/hub/settings.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/checkpoints/outline.h"
#include "saccade/model/conform/conform_record.h"

#include "command_model.h"
#include "load_checkpoint.h"

namespace saccade::app {
namespace {

namespace fs = std::filesystem;

struct ListArguments {
  std::vector<std::string> folders;
  std::string cache;
  bool json = false;
};

struct Listed {
  std::string name;  // as -m takes it
  fs::path path;
  std::string commit;  // in a hub's cache
  std::vector<std::string> revisions;
  std::optional<CheckpointOutline> outline;
  std::string problem;     // why there is no outline
  bool reference = false;  // io.safetensors is there
  ConformanceRecord conformance;
};

using Records = std::map<std::string, ConformanceRecord>;

void look_at(Listed& listed, const Records& records) {
  auto outline = outline_checkpoint(listed.path);
  if (!outline) {
    listed.problem = outline.error().message;
    return;
  }
  std::error_code ignored;
  listed.reference = fs::exists(listed.path / "io.safetensors", ignored);
  if (const auto found = records.find(files_stamp(outline->files)); found != records.end())
    listed.conformance = found->second;
  listed.outline = std::move(*outline);
}

Result<std::vector<hub::CachedModel>> all_cached(const ListArguments& arguments) {
  if (!arguments.cache.empty()) return hub::list_cached(arguments.cache);
  SACCADE_ASSIGN(const fs::path cache, hub::cache_from_environment());
  return hub::list_cached(cache);
}

Result<std::vector<Listed>> everything(const ListArguments& arguments, Messages& messages) {
  std::vector<Listed> all;
  for (const std::string& folder : arguments.folders) {
    SACCADE_ASSIGN(const std::vector<fs::path> found, checkpoints_in(folder));
    for (const fs::path& path : found) {
      Listed& listed = all.emplace_back();
      listed.path = path;
      listed.name = path.string();
    }
  }
  auto cached = all_cached(arguments);
  if (!cached) {
    // Whoever names folders and no cache has asked for the folders.
    if (arguments.folders.empty() || !arguments.cache.empty()) return fail(cached.error());
    messages.warning(cached.error().message);
    cached.emplace();
  }
  for (hub::CachedModel& model : *cached) {
    Listed& listed = all.emplace_back();
    listed.name = model.text();
    listed.path = model.path;
    listed.commit = std::move(model.commit);
    listed.revisions = std::move(model.revisions);
    const auto missing = hub::missing_files(model.path);
    if (!missing) {
      listed.problem = missing.error().message;
    } else if (!missing->empty()) {
      listed.problem =
          fmt::format("{} is missing: `saccade model pull {}` brings it", missing->front(), listed.name);
    }
  }
  if (const auto starter = starter_checkpoint()) {
    Listed& listed = all.emplace_back();
    listed.path = *starter;
    listed.name = starter->string();
  }

  const Records records = conformance_by_stamp();
  for (Listed& listed : all) {
    if (listed.problem.empty()) look_at(listed, records);
  }
  return all;
}

std::vector<std::string> precisions(const ConformanceRecord& record) {
  std::vector<std::string> names;
  for (const ConformanceResult& result : record.results) {
    if (std::find(names.begin(), names.end(), result.precision) == names.end())
      names.push_back(result.precision);
  }
  return names;
}

// null where a figure is not known.
Json known(int64_t number) {
  return number > 0 ? Json(number) : Json();
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json listed_json(const Listed& listed) {
  const CheckpointOutline outline = listed.outline.value_or(CheckpointOutline{});
  return Json{{"checkpoint", listed.name},
              {"path", listed.path.string()},
              {"commit", known(listed.commit)},
              {"revisions", listed.revisions},
              {"family", known(outline.family)},
              {"known", outline.known},
              {"layout", known(outline.layout)},
              {"parameters", known(outline.parameters)},
              {"bytes", known(outline.bytes)},
              {"dim", known(outline.dim)},
              {"context", known(outline.context)},
              {"image_height", known(outline.image_height)},
              {"image_width", known(outline.image_width)},
              {"preprocessing", known(outline.preprocessing)},
              {"fingerprint", known(listed.conformance.fingerprint)},
              {"reference", listed.reference},
              {"conforms", precisions(listed.conformance)},
              {"problem", known(listed.problem)}};
}

// Says behind a checkpoint that is no encoder what it is.
std::string_view kind_note(const CheckpointOutline& outline) {
  if (outline.known) return "";
  if (outline.family == "composer") return "  (no encoder: a composer, for search --compose)";
  if (outline.family == "editor") return "  (no encoder: an image editor, for generate edits --editor)";
  return "  (a family that Saccade does not know)";
}

std::string listed_line(const Listed& listed) {
  if (!listed.outline)
    return fmt::format("{:<65} {}: {}\n", "not usable", one_line(listed.name), one_line(listed.problem));
  const CheckpointOutline& outline = *listed.outline;
  const auto or_dash = [](int64_t number) {
    return number > 0 ? fmt::format("{}", number) : std::string("-");
  };
  std::string conforms = fmt::format("{}", fmt::join(precisions(listed.conformance), ","));
  if (conforms.empty()) conforms = listed.reference ? "not run" : "-";
  const std::string image =
      outline.image_width > 0 ? fmt::format("{}x{}", outline.image_width, outline.image_height) : "-";
  return fmt::format("{:<12} {:>13} {:>9} {:>5} {:>6} {:>9} {:<9} {}{}\n", one_line(outline.family),
                     count_text(outline.parameters), size_text(outline.bytes), or_dash(outline.dim),
                     or_dash(outline.context), image, conforms, one_line(listed.name), kind_note(outline));
}

Result<int> run_list(const ListArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const std::vector<Listed> all, everything(arguments, session.messages));
  if (arguments.json) {
    Json list = Json::array();
    for (const Listed& listed : all) list.push_back(listed_json(listed));
    SACCADE_TRY(session.out.write_json(Json{{"checkpoints", std::move(list)}}));
    return kDone;
  }
  std::string text = fmt::format("{:<12} {:>13} {:>9} {:>5} {:>6} {:>9} {:<9} {}\n", "family", "parameters",
                                 "size", "dim", "tokens", "pixels", "conforms", "checkpoint");
  for (const Listed& listed : all) text += listed_line(listed);
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

}  // namespace

void add_model_list_command(CLI::App& group, Command& chosen) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* command = group.add_subcommand(
      "list", "List the checkpoints of the hub's cache, the starter, and those in folders");
  command->add_option("FOLDER", arguments->folders,
                      "checkpoints, or folders of checkpoints, to list as well");
  command->add_option("--cache", arguments->cache,
                      "folder of the hub's cache (default: $HF_HUB_CACHE, or ~/.cache/huggingface/hub)");
  command->add_flag("--json", arguments->json, "print the list as JSON");
  run_when_given(*command, chosen, arguments, run_list);
}

}  // namespace saccade::app
