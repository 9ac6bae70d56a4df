#include "option_kinds.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace saccade::app {
namespace {

// Kinds of texts, by the options that take them, in all commands.
struct Kind {
  std::string_view word;
  std::string_view options;  // with blanks around each
};

constexpr std::array<Kind, 16> kKinds = {{
    {"DIR",
     " to collection run cache index-folder allow-write editor composer pseudo-targets server-files generated "},
    {"FILE",
     " files-from by-table html script queries key-file tls-certificate tls-key token-file config charts io lexicon objects null vectors scores "
     "workflow texts captions features embeddings classes templates word-ratings "},
    {"PATH", " output images image "},
    {"CHECKPOINT", " model rerank initial visualness against "},
    {"DATASET",
     " dataset held-out test validation choose-on automatic human retrieval composition long attention-texts prior "},
    {"ADDRESS:PORT", " listen "},
    {"URL", " endpoint "},
    {"HOST", " fetch-from "},
    {"CONDITION", " filter "},
    {"PATTERN", " exclude "},
    {"FIELD=VALUE", " set "},
    {"NAME=RUN", " training "},
    {"WIDTHxHEIGHT", " size "},
    {"I/N", " shard "},
    {"NAME",
     " switch split engine-model languages compose method device url-column caption-column id-column keep columns "},
    {"TEXT", " was title prompt format sentence domain "},
}};

std::string_view kind_of(const CLI::Option& option) {
  for (const Kind& kind : kKinds) {
    for (const std::string& name : option.get_lnames()) {
      if (kind.options.find(" " + name + " ") != std::string_view::npos) return kind.word;
    }
  }
  return {};
}

// Kinds and positional names whose values are paths, or names that stand for one.
constexpr std::array kPaths = {
    std::string_view("DIR"),      std::string_view("FILE"),       std::string_view("PATH"),
    std::string_view("DATASET"),  std::string_view("CHECKPOINT"), std::string_view("COMPOSER"),
    std::string_view("DOCUMENT"), std::string_view("FOLDER"),     std::string_view("OTHER"),
    std::string_view("RATINGS"),  std::string_view("RUN"),        std::string_view("SAMPLE"),
    std::string_view("TABLE")};

// Refuses an empty value, which a shell passes for "$DIR" if DIR is not set. It would count as an option that is not
// given: another collection would be used, or no file written.
void refuse_empty(CLI::Option& option, std::string_view kind) {
  if (std::ranges::find(kPaths, kind) == kPaths.end()) return;
  option.check([kind = std::string(kind)](const std::string& value) {
    return value.empty() ? "the value is empty, expected " + kind : std::string();
  });
}

void name_kind(CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return;  // a flag
  const std::string type = option.get_type_name();
  const bool member = type.find('{') != std::string::npos;
  const bool whole = type.starts_with("INT") || type.starts_with("UINT");
  const bool real = type.starts_with("FLOAT");
  if (option.get_items_expected_max() > 1 && (member || whole || real) && option.get_delimiter() == '\0') {
    option.delimiter(',');
  }
  if (option.get_positional()) {
    refuse_empty(option, option.get_name());
    option.type_name("");  // its name says it
  } else if (member) {
    option.type_name("NAME");  // and those that there are
  } else if (whole) {
    option.type_name("N");
  } else if (real) {
    option.type_name("NUMBER");
  } else if (const std::string_view kind = kind_of(option); !kind.empty()) {
    refuse_empty(option, kind);
    option.type_name(std::string(kind));
  }
}

}  // namespace

void name_option_kinds(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](CLI::Option*) { return true; })) name_kind(*option);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) name_option_kinds(*command);
}

}  // namespace saccade::app
