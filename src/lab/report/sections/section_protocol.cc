// Protocol and inputs of the measurements: the last section of a page, folded.
#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

std::string short_hash(const std::string& hash) {
  if (hash.empty()) return "\xE2\x80\x93";
  return fmt::format("<code title=\"{}\">{}</code>", escape_html(hash), escape_html(hash.substr(0, 12)));
}

std::string entry(std::string_view name, const std::string& html) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, html);
}

std::string dataset_html(const RunDataset& dataset) {
  std::string html = fmt::format("{} ({}): ", escape_html(dataset.name), escape_html(dataset.layout));
  if (dataset.compositions > 0) {
    html += count_cell(dataset.compositions).html + " items";
  } else {
    html +=
        fmt::format("{} images, {} texts", count_cell(dataset.images).html, count_cell(dataset.texts).html);
  }
  html += "; " + short_hash(dataset.sha256);
  if (!dataset.images_sha256.empty()) html += ", images " + short_hash(dataset.images_sha256);
  for (const Exclusion& excluded : dataset.excluded) {
    html += fmt::format("<br>left out: {} {}", count_cell(excluded.count).html, escape_html(excluded.reason));
  }
  return html;
}

std::string checkpoint_html(const RunCheckpoint& checkpoint) {
  std::string html = escape_html(checkpoint.name);
  if (!checkpoint.family.empty()) {
    html += fmt::format(": {}, {} parameters, {} wide, {} tokens, {} \xC3\x97 {} pixels, {}",
                        escape_html(checkpoint.family), count_cell(checkpoint.parameters).html,
                        checkpoint.dim, checkpoint.context, checkpoint.image_height, checkpoint.image_width,
                        escape_html(checkpoint.precision));
  }
  return html + "; " + short_hash(checkpoint.fingerprint);
}

// Returns one sentence or several: the field is a text, or a list of texts.
std::string description_html(const Json& protocol) {
  const Json& description = member(protocol, "description");
  std::string html;
  if (description.is_string())
    html = fmt::format("<p class=\"words\">{}</p>\n", escape_html(description.get<std::string>()));
  if (description.is_array()) {
    for (const Json& each : description) {
      if (each.is_string())
        html += fmt::format("<p class=\"words\">{}</p>\n", escape_html(each.get<std::string>()));
    }
  }
  return html;
}

std::string run_html(const LoadedRun& loaded) {
  const RunInfo& info = loaded.run->info;
  std::string html =
      fmt::format("<article class=\"run\"><h4>{} <span class=\"tag\">{}</span></h4>\n{}",
                  escape_html(loaded.name), escape_html(info.kind), description_html(info.protocol));
  std::string facts;
  for (const RunDataset& dataset : info.datasets) facts += entry("dataset", dataset_html(dataset));
  for (const RunCheckpoint& checkpoint : info.checkpoints)
    facts += entry("model", checkpoint_html(checkpoint));
  facts += entry("intervals", info.resamples > 0
                                  ? fmt::format("{:.3g}% from {} resamples, seed {}", 100 * info.confidence,
                                                count_cell(info.resamples).html, info.seed)
                                  : std::string("none"));
  std::string origin;
  std::string libraries = "Saccade " + escape_html(info.saccade);
  for (const auto& [name, version] : info.libraries) {
    libraries += fmt::format(", {} {}", escape_html(name), escape_html(version));
  }
  origin += entry("made with", libraries);
  origin += entry("machine", fmt::format("{}, {} threads, {:.1f} GiB, device {}",
                                         escape_html(info.machine.processor), info.machine.threads,
                                         static_cast<double>(info.machine.memory_bytes) / (1U << 30U),
                                         escape_html(info.machine.device)));
  std::string command;
  for (const std::string& argument : info.command) command += (command.empty() ? "" : " ") + argument;
  origin += entry("command", fmt::format("<code>{}</code>", escape_html(command)));
  return html + "<dl>\n" + facts + "</dl>\n<details><summary>how it was made</summary><dl>\n" + origin +
         "</dl></details></article>\n";
}

}  // namespace

std::string protocol_section(const ReportData& data) {
  if (data.runs.empty()) return {};
  std::string html =
      "<section id=\"protocol\"><h2>Protocols</h2>\n<details><summary>What was measured and how: protocols, inputs and their "
      "hashes, intervals, machines, commands</summary>\n";
  for (const LoadedRun& run : data.runs) html += run_html(run);
  return html + "</details></section>\n";
}

}  // namespace saccade::lab
