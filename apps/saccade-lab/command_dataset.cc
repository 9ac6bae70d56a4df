// saccade dataset info|convert|audit: what is in a dataset, its manifest, and what to know before trusting a
// figure from it.
#include "command_dataset.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/data/audit.h"
#include "lab/data/dataset.h"
#include "lab/data/dataset_json.h"
#include "lab/data/edit_queries.h"
#include "lab/data/read_dataset.h"
#include "lab/data/readers/manifest.h"
#include "saccade/collection/ingest/caption_list.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/output_file.h"

#include "lab_commands.h"
#include "load_checkpoint.h"
#include "number.h"
#include "outputs.h"

namespace saccade::lab::app {
namespace {

struct DatasetArguments {
  std::vector<std::string> datasets;
  DatasetOptions options;
  std::string images;
  std::string output;      // convert
  bool overwrite = false;  // convert
  std::string checkpoint;  // audit
  double near_cosine = 0.98;
  EncoderChoice encoder;
  bool json = false;
};

Result<std::vector<Dataset>> read_all(const DatasetArguments& arguments) {
  DatasetOptions defaults = arguments.options;
  defaults.images = arguments.images;
  std::vector<Dataset> datasets;
  for (const std::string& text : arguments.datasets) {
    SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(text, defaults));
    SACCADE_ASSIGN(datasets.emplace_back(), read_dataset(source));
  }
  return datasets;
}

std::string excluded_text(const Dataset& dataset) {
  std::string text;
  for (const Exclusion& exclusion : dataset.excluded) {
    text += fmt::format("left out     {}: {}, such as {}\n", exclusion.reason, count_text(exclusion.count),
                        one_line(exclusion.examples.front()));
  }
  return text;
}

std::string lengths_text(const Lengths& lengths) {
  return fmt::format("{} to {}, median {}, mean {:.1f}, 95% within {}", lengths.min, lengths.max,
                     lengths.median, lengths.mean, lengths.p95);
}

std::string edits_text(const Dataset& dataset) {
  const auto* edits = dataset.find<EditQueries>();
  if (edits == nullptr) return {};
  const EditCounts counts = count_edits(*edits);
  std::string text;
  for (const auto& [gallery, pictures] : counts.galleries) {
    text += fmt::format("gallery      {:<12} {:>9}\n", gallery.empty() ? "(all)" : one_line(gallery),
                        count_text(pictures));
  }
  const std::pair<const char*, int64_t> notes[] = {{"several targets", counts.several_targets},
                                                   {"no target", counts.without_target},
                                                   {"a subset", counts.with_subset},
                                                   {"explicit negatives", counts.with_negatives},
                                                   {"a shared concept", counts.with_concept},
                                                   {"paraphrases", counts.paraphrased},
                                                   {"empty texts", counts.empty_texts}};
  for (const auto& [what, count] : notes) {
    if (count > 0) text += fmt::format("queries      {} with {}\n", count_text(count), what);
  }
  return text;
}

std::string size_text(const Dataset& dataset) {
  if (const auto* edits = dataset.find<EditQueries>()) {
    return fmt::format("{}, {}",
                       dataset.size() == 1 ? "1 edit query" : count_text(dataset.size()) + " edit queries",
                       counted(std::ssize(edits->gallery), "image"));
  }
  if (dataset.find<RatedTexts>() == nullptr) {
    return counted(dataset.size(),
                   dataset.find<CompositionTests>() == nullptr ? "image" : "composition test");
  }
  const Json counts = rated_texts_json(dataset);
  const auto count = [&](const char* key) { return count_text(counts[key].get<int64_t>()); };
  return fmt::format("{}: {} visual, {} non-visual, {} ambiguous; {} with an image",
                     counted(dataset.size(), "rated text"), count("visual"), count("non_visual"),
                     count("ambiguous"), count("with_image"));
}

Result<int> run_info(const DatasetArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const std::vector<Dataset> datasets, read_all(arguments));
  const Dataset& dataset = datasets.front();
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json(dataset_info_json(dataset)));
    return kDone;
  }
  const Lengths captions = captions_per_item(dataset);
  const Lengths characters = caption_characters(dataset);
  std::string text = fmt::format("dataset      {}, layout {}, {}\n", one_line(dataset.name), dataset.layout,
                                 size_text(dataset));
  for (const auto& [split, count] : dataset.split_sizes) {
    text += fmt::format("split        {:<12} {:>9}\n", split.empty() ? "(none)" : one_line(split),
                        count_text(count));
  }
  text += edits_text(dataset);
  text += fmt::format("captions     {}; an item: {}\n", count_text(characters.count), lengths_text(captions));
  text += fmt::format("characters   {}\n", lengths_text(characters));
  text += excluded_text(dataset);
  text += fmt::format("content      sha256 {}\n", dataset.hash);
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

Result<int> run_convert(const DatasetArguments& arguments, Session& session) {
  const std::filesystem::path output = arguments.output;
  OutputRules rules{.overwrite = arguments.overwrite};
  add_dataset_input(rules, arguments.datasets[0]);
  SACCADE_TRY(check_output(output, OutputKind::kJsonLines, rules));
  SACCADE_ASSIGN(const std::vector<Dataset> datasets, read_all(arguments));
  const Dataset& dataset = datasets.front();
  for (const RecordFile& file : dataset.files) rules.inputs.emplace_back(file.path);
  SACCADE_ASSIGN(const std::string manifest,
                 format_manifest(dataset, output.parent_path()).in(arguments.datasets[0]));
  SACCADE_TRY(write_output(output, OutputKind::kJsonLines, rules, manifest));
  if (arguments.json) {
    SACCADE_TRY(session.out.write_json({{"output", arguments.output},
                                        {"layout", dataset.layout},
                                        {"sha256", dataset.hash},
                                        {"items", count_of<CaptionedImages>(dataset)},
                                        {"compositions", count_of<CompositionTests>(dataset)},
                                        {"rated_texts", rated_texts_json(dataset)},
                                        {"edits", edits_json(dataset)},
                                        {"excluded", exclusions_json(dataset.excluded)}}));
  } else {
    SACCADE_TRY(session.out.write(fmt::format("{}: {} from layout {}\n{}", one_line(arguments.output),
                                              counted(dataset.size(), "item"), dataset.layout,
                                              excluded_text(dataset))));
  }
  return kDone;
}

// A list's beginning, indented. `examples`: the list itself is the beginning of what was found.
template <typename List, typename Show>
std::string some(const List& list, Show show, bool examples = false) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < list.size() && i < kShown; ++i)
    text += fmt::format("             {}\n", one_line(show(list[i])));
  if (list.size() > kShown && examples) {
    text += fmt::format("             and more (--json has the first {})\n", list.size());
  } else if (list.size() > kShown) {
    text += fmt::format("             and {} more (--json lists all)\n",
                        count_text(static_cast<int64_t>(list.size() - kShown)));
  }
  return text;
}

std::string images_text(const AuditReport& report) {
  const auto size = [](const auto& list) { return count_text(static_cast<int64_t>(list.size())); };
  const auto failure = [](const auto& each) { return each.image + ": " + each.reason; };
  std::string text =
      fmt::format("images       {} of {}\n", count_text(report.images), counted(report.items, "item"));
  text += fmt::format("missing      {}\n", size(report.missing)) + some(report.missing, failure);
  text += fmt::format("unreadable   {}\n", size(report.unreadable)) + some(report.unreadable, failure);
  text +=
      fmt::format("same bytes   {}\n", counted(static_cast<int64_t>(report.same_images.size()), "group")) +
      some(report.same_images, [](const auto& group) { return fmt::format("{}", fmt::join(group, " = ")); });
  text += fmt::format("look alike   {}, by {}\n",
                      counted(static_cast<int64_t>(report.near_images.size()), "pair"), report.near_method) +
          some(report.near_images, [](const auto& pair) {
            return fmt::format("{} ~ {} ({:.3g})", pair.a, pair.b, pair.distance);
          });
  return text;
}

std::string captions_text(const AuditReport& report) {
  std::string text = fmt::format(
      "captions     {}, {} different, {} but for case, punctuation and spaces; {} repeated within an item\n",
      count_text(report.captions), count_text(report.distinct_captions),
      count_text(report.distinct_plain_captions), count_text(report.repeated_in_item));
  text +=
      fmt::format("ambiguous    {} belong to several items\n", count_text(report.ambiguous_captions)) +
      some(
          report.most_shared,
          [](const auto& shared) { return fmt::format("{} items: {}", shared.items, shared.caption); }, true);
  if (report.indistinguishable_compositions > 0) {
    text += fmt::format("undecidable  {} with two equal captions\n",
                        count_text(report.indistinguishable_compositions));
  }
  if (report.contradicting_labels > 0) {
    text += fmt::format("contradicted {} called visual and non-visual\n",
                        counted(report.contradicting_labels, "text"));
  }
  text += fmt::format("characters   {}\n", lengths_text(report.characters));
  if (report.tokens) {
    const double share = report.captions == 0 ? 0
                                              : 100.0 * static_cast<double>(report.cut_captions) /
                                                    static_cast<double>(report.captions);
    text += fmt::format("tokens       {}; {} captions ({:.1f}%) are cut, {} tokens lost\n",
                        lengths_text(*report.tokens), count_text(report.cut_captions), share,
                        count_text(report.cut_tokens));
  }
  return text;
}

std::string edit_audit_text(const AuditReport::Edits& edits) {
  if (edits.queries == 0) return {};
  return fmt::format(
             "edit queries {}; reference among the targets {}, target shown in training {}, asked alike with "
             "other targets {}, without a target {}, with empty texts {}\n",
             count_text(edits.queries), count_text(edits.reference_is_target), count_text(edits.targets_seen),
             count_text(edits.same_query_other_targets), count_text(edits.without_target),
             count_text(edits.empty_texts)) +
         some(
             edits.examples, [](const std::string& example) { return example; }, true);
}

std::string audit_text(const AuditReport& report) {
  std::string text = images_text(report) + captions_text(report) + edit_audit_text(report.edits);
  for (const auto& leak : report.leaks) {
    const std::string a = leak.a.empty() ? "(none)" : leak.a;
    const std::string b = leak.b.empty() ? "(none)" : leak.b;
    text +=
        fmt::format("leak         {} / {}: same images {} / {}, alike {} / {}, captions {} / {}, groups {}\n",
                    one_line(a), one_line(b), leak.same_images_a, leak.same_images_b, leak.near_images_a,
                    leak.near_images_b, leak.captions_a, leak.captions_b, leak.groups) +
        some(
            leak.examples, [](const std::string& example) { return example; }, true);
  }
  text += fmt::format(
      "order        ids {}; first captions of neighbours share {:.3f} of their words, of others {:.3f}{}\n",
      report.ids_in_order ? "ascend" : "do not ascend", report.neighbour_overlap, report.random_overlap,
      report.ordered_by_content ? ": ordered by content, so shuffle before cutting or sampling" : "");
  return text;
}

// Prints the captions as `saccade index --captions` reads them.
Result<int> run_captions(const DatasetArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const std::vector<Dataset> datasets, read_all(arguments));
  std::string text;
  SACCADE_ASSIGN(const CaptionedImages* images, datasets.front().need<CaptionedImages>());
  int64_t archived = 0;
  for (const DatasetItem& item : images->items) {
    if (item.image.in_archive()) {
      ++archived;
    } else {
      text += caption_list_line(item.image.path, item.captions);
    }
  }
  if (archived > 0) {
    session.messages.warning(
        fmt::format("left out {} inside archives or Parquet files: `saccade index` "
                    "reads image files",
                    counted(archived, "image")));
  }
  SACCADE_TRY(session.out.write(text));
  return kDone;
}

Result<int> run_audit(const DatasetArguments& arguments, Session& session) {
  SACCADE_ASSIGN(const std::vector<Dataset> datasets, read_all(arguments));
  AuditOptions options;
  LoadedEncoder loaded;
  if (!arguments.checkpoint.empty()) {
    EncoderChoice choice = arguments.encoder;
    SACCADE_TRY(settle_precision(arguments.checkpoint, choice, session.messages));
    SACCADE_ASSIGN(loaded, load_checkpoint(arguments.checkpoint, choice));
    options.tokenizer = loaded.encoder->tokenizer();
    options.context = loaded.encoder->info().context;
    options.preprocessing = loaded.encoder->preprocessing();
    options.near_cosine = arguments.near_cosine;
    options.encode = [&loaded](MatrixView<const float> pixels) {
      return loaded.encoder->encode_images(pixels);
    };
  }
  options.processes = session.decoders.start(session.messages);
  ThreadPool pool(arguments.encoder.threads);
  ProgressLine progress(session.quiet);
  auto report =
      audit_datasets(datasets, options, pool, progress.callback(), session.interrupts.stop_cleanly());
  progress.clear();
  if (!report) return fail(std::move(report).error());
  if (arguments.json) {
    Json json = audit_json(*report);
    json["datasets"] = Json::array();
    for (const Dataset& dataset : datasets) {
      json["datasets"].push_back({{"name", dataset.name},
                                  {"layout", dataset.layout},
                                  {"sha256", dataset.hash},
                                  {"excluded", exclusions_json(dataset.excluded)}});
    }
    SACCADE_TRY(session.out.write_json(json));
  } else {
    std::string text;
    for (const Dataset& dataset : datasets) {
      text += fmt::format("dataset      {}, layout {}\n", one_line(dataset.name), dataset.layout) +
              excluded_text(dataset);
    }
    SACCADE_TRY(session.out.write(text + audit_text(*report)));
  }
  return report->missing.empty() && report->unreadable.empty() ? kDone : kSomeFailed;
}

using Run = Result<int> (*)(const DatasetArguments&, Session&);

CLI::App* add_part(CLI::App* group, const std::string& name, const std::string& what,
                   const std::shared_ptr<DatasetArguments>& arguments, Command& chosen, Run run) {
  CLI::App* command = group->add_subcommand(name, what);
  auto* paths = command
                    ->add_option("PATH", arguments->datasets,
                                 "dataset (see saccade help datasets): PATH or PATH#key=value,...")
                    ->required();
  if (name != "audit") paths->expected(1);
  command->add_option("--split", arguments->options.split,
                      "split to read, or several, such as train+val (default: all)");
  command->add_option("--format", arguments->options.format,
                      "name of the layout (default: detected from its content)");
  command->add_option("--images", arguments->images, "folder that image names are relative to");
  command->add_flag("--skip-missing", arguments->options.skip_missing,
                    "skip items whose image file does not exist, and count them");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  run_when_given(*command, chosen, arguments, run);
  return command;
}

}  // namespace

void add_dataset_command(CLI::App& app, Command& chosen) {
  auto arguments = std::make_shared<DatasetArguments>();
  CLI::App* group = app.add_subcommand("dataset", "Inspect, convert, audit and make datasets");
  group->require_subcommand(1);
  add_part(group, "info", "Show a dataset's layout, splits, captions and skipped items", arguments, chosen,
           run_info);
  CLI::App* convert =
      add_part(group, "convert", "Write a dataset as a manifest", arguments, chosen, run_convert);
  convert->add_option("-o,--output", arguments->output, "manifest file to write")->required();
  add_overwrite_option(*convert, arguments->overwrite);
  add_part(group, "captions", "Print the captions of image files as JSON Lines, for saccade index --captions",
           arguments, chosen, run_captions);
  CLI::App* audit = add_part(
      group, "audit", "Check datasets for duplicates, leakage, missing files, order, and caption lengths",
      arguments, chosen, run_audit);
  audit->add_option(
      "-m,--model", arguments->checkpoint,
      "checkpoint for comparing images and counting tokens of captions (default: compare small grayscale "
      "copies, count words)");
  add_number(*audit, "--near", arguments->near_cosine, real_number(0, 1),
             "with -m: minimum cosine similarity of near-duplicates, 0 to 1");
  add_encoder_options(*audit, arguments->encoder);
  add_decode_options(*audit);
  add_dataset_fetch(*group, chosen);
  add_dataset_from_pdf(*group, chosen);
  add_dataset_label(*group, chosen);
}

}  // namespace saccade::lab::app
