#include "lab/data/read_dataset.h"

#include <algorithm>
#include <array>
#include <set>
#include <sys/stat.h>

#include <fmt/ranges.h>

#include "lab/data/edit_queries.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/piece_file.h"
#include "lab/data/readers/reader.h"
#include "lab/data/where_to_get.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/text/nearest.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

const data::Reader* find_reader(std::string_view name) {
  for (const data::Reader* reader : data::readers()) {
    if (reader->name == name) return reader;
  }
  return nullptr;
}

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const data::Reader* reader : data::readers()) names.emplace_back(reader->name);
  return names;
}

// Returns the reader of a candidate. If a folder holds a file of records, that file becomes the candidate.
Result<const data::Reader*> choose_reader(data::Candidate& candidate, const DatasetOptions& options) {
  if (!options.format.empty()) {
    const data::Reader* reader = find_reader(options.format);
    if (reader == nullptr) {
      const std::vector<std::string> names = layout_names();
      return fail(ErrorCode::kUsage, "no dataset layout \"{}\"; there are {}{}", options.format,
                  fmt::join(names, ", "), did_you_mean(options.format, names));
    }
    if (candidate.archive && reader != &data::kWebDataset && reader != &data::kParquet) {
      return fail(ErrorCode::kUsage, "an archive by its name, which is no file of the layout \"{}\"",
                  options.format);
    }
    // The layout is one of files, but was named for the folder that holds its file.
    if (candidate.folder && !reader->recognizes(candidate)) {
      SACCADE_ASSIGN(auto records, data::find_records(candidate));
      if (records) candidate = *std::move(records);
    }
    return reader;
  }
  for (const data::Reader* reader : data::readers()) {
    if (!reader->recognizes(candidate)) continue;
    // Any other folder is one of images, but a file of records in it takes precedence.
    if (reader != &data::kFolder) return reader;
    SACCADE_ASSIGN(auto records, data::find_records(candidate));
    if (!records) return reader;
    candidate = *std::move(records);
    return choose_reader(candidate, options);
  }
  return fail(ErrorCode::kUnsupported, "its content fits no dataset layout; a format may be named: {}",
              fmt::join(layout_names(), ", "));
}

// Calls `visit` with the id and split of every item.
template <typename Visit>
Status visit_items(const Dataset& dataset, Visit visit) {
  const auto each = [&](const auto& kind) -> Status {
    for (const auto& item : kind.items) SACCADE_TRY(visit(item.id, item.split));
    return {};
  };
  return std::visit(each, dataset.content);
}

Status check_ids(const Dataset& dataset) {
  std::set<std::string_view> ids;
  return visit_items(dataset, [&](const std::string& id, const std::string&) -> Status {
    if (id.empty()) return fail(ErrorCode::kBadData, "item {} has an empty id", ids.size() + 1);
    if (!ids.insert(id).second) return fail(ErrorCode::kBadData, "a second item with id \"{}\"", id);
    return {};
  });
}

Status select_split(Dataset& dataset, const std::string& wanted) {
  SACCADE_TRY(visit_items(dataset, [&](const std::string&, const std::string& split) -> Status {
    ++dataset.split_sizes[split];
    return {};
  }));
  if (wanted.empty()) return {};
  std::set<std::string, std::less<>> splits;
  for (size_t begin = 0; begin <= wanted.size();) {
    const size_t end = std::min(wanted.find('+', begin), wanted.size());
    const std::string split = wanted.substr(begin, end - begin);
    if (split.empty() || !dataset.split_sizes.contains(split)) {
      std::string there;
      for (const auto& [name, count] : dataset.split_sizes) {
        if (name.empty()) continue;
        there += fmt::format("{}{} ({})", there.empty() ? "" : ", ", name, count);
      }
      return fail(ErrorCode::kUsage, "no split \"{}\"; {}", split,
                  there.empty() ? "its items have none" : "there are " + there);
    }
    splits.insert(split);
    begin = end + 1;
  }
  const auto choose = [&](auto& kind) {
    std::erase_if(kind.items, [&](const auto& item) { return !splits.contains(item.split); });
  };
  std::visit(choose, dataset.content);
  if (auto* edits = std::get_if<EditQueries>(&dataset.content)) prune_galleries(*edits);
  dataset.name += "-" + wanted;
  return {};
}

bool is_there(const ImageRef& image) {
  struct stat info {};
  return ::stat(image.path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::span<const ImageRef> images_of(const DatasetItem& item) {
  return {&item.image, 1};
}
std::span<const ImageRef> images_of(const CompositionItem& item) {
  return item.images;
}
std::span<const ImageRef> images_of(const RatedText& item) {
  return item.image ? std::span(&*item.image, 1) : std::span<const ImageRef>();
}

void skip_missing(Dataset& dataset) {
  const auto skip = [&](auto& kind) {
    if constexpr (std::is_same_v<decltype(kind), EditQueries&>) {
      drop_missing_pictures(dataset, [](const ImageRef& image) { return !is_there(image); });
    } else {
      std::erase_if(kind.items, [&](const auto& item) {
        if (std::ranges::all_of(images_of(item), is_there)) return false;
        dataset.exclude("image files that are not there", item.id);
        return true;
      });
    }
  };
  std::visit(skip, dataset.content);
}

// Every string is preceded by its length, so that different datasets give different bytes.
class ContentHash {
 public:
  void add(const CaptionedImages& images) {
    for (const DatasetItem& item : images.items) {
      add(item.id);
      add(item.group);
      for (const std::string& caption : item.captions) add(caption);
      hash_.update("\n");
    }
  }
  void add(const CompositionTests& tests) {
    for (const CompositionItem& item : tests.items) {
      add(item.id);
      add(item.kind);
      hash_.update(fmt::format("{};", item.images.size()));
      for (const std::string& caption : item.captions) add(caption);
      hash_.update("\n");
    }
  }
  void add(const RatedTexts& texts) {
    for (const RatedText& item : texts.items) {
      add(item.id);
      add(item.group);
      add(item.text);
      add(!item.visual ? "ambiguous" : *item.visual ? "visual" : "non-visual");
      for (const double rating : item.ratings) add(fmt::format("{}", rating));
      hash_.update(item.image ? "1;\n" : "0;\n");
    }
  }
  void add(const EditQueries& edits) {
    for (const EditQuery& query : edits.items) {
      for (const std::string* text :
           {&query.id, &query.group, &query.gallery, &query.reference, &query.shared_concept, &query.kind}) {
        add(*text);
      }
      for (const auto* list :
           {&query.texts, &query.paraphrases, &query.targets, &query.subset, &query.negatives}) {
        for (const std::string& text : *list) add(text);
        hash_.update(";");
      }
      hash_.update("\n");
    }
    for (const GalleryPicture& picture : edits.gallery) {
      add(picture.gallery);
      add(picture.id);
    }
  }
  std::string hex() { return hash_.hex(); }

 private:
  void add(std::string_view text) { hash_.update(fmt::format("{}:{},", text.size(), text)); }

  Sha256 hash_;
};

std::string content_hash(const Dataset& dataset) {
  ContentHash hash;
  std::visit([&](const auto& kind) { hash.add(kind); }, dataset.content);
  return hash.hex();
}

std::string name_of(const fs::path& path) {
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  std::string name = clean.stem().string();
  return name.empty() || name == "." || name == ".." ? "dataset" : name;
}

Status set_option(std::string_view key, std::string_view value, DatasetOptions& options) {
  constexpr std::string_view kColumn = "-column";
  if (value.empty()) return fail(ErrorCode::kUsage, "\"{}\" without a value", key);
  if (key == "split") {
    options.split = value;
  } else if (key == "format") {
    options.format = value;
  } else if (key == "images") {
    options.images = value;
  } else if (key == "missing") {
    if (value != "keep" && value != "skip") {
      return fail(ErrorCode::kUsage, "missing is \"{}\", not keep or skip", value);
    }
    options.skip_missing = value == "skip";
  } else if (key.ends_with(kColumn) && key.size() > kColumn.size()) {
    options.columns[std::string(key.substr(0, key.size() - kColumn.size()))] = value;
  } else {
    constexpr std::array<std::string_view, 4> kKeys = {"split", "format", "images", "missing"};
    return fail(ErrorCode::kUsage, "no key \"{}\"; there are {}, ROLE-column{}", key, fmt::join(kKeys, ", "),
                did_you_mean(key, kKeys));
  }
  return {};
}

Status check_columns(const DatasetOptions& options) {
  constexpr std::array<std::string_view, 5> kRoles = {"image", "caption", "id", "split", "group"};
  for (const auto& [role, column] : options.columns) {
    if (std::ranges::find(kRoles, role) == kRoles.end()) {
      return fail(ErrorCode::kUsage, "no column has the role \"{}\"; there are {}{}", role,
                  fmt::join(kRoles, ", "), did_you_mean(role, kRoles));
    }
  }
  return {};
}

// Returns the reason why a dataset has no items, and what to do about it.
std::string why_empty(const Dataset& dataset, const DatasetSource& source) {
  std::string text = "nothing in it";
  std::string advice;
  std::error_code ignored;
  for (const Exclusion& exclusion : dataset.excluded) {
    text += fmt::format("{}{}: {}", &exclusion == &dataset.excluded.front() ? "; left out: " : ", ",
                        exclusion.reason, exclusion.count);
    if (exclusion.reason != data::kWebAddresses) continue;
    advice = fmt::format(
        "; download them into FOLDER, and pass it as the dataset: saccade-lab dataset fetch {} -o FOLDER",
        fs::is_directory(source.path, ignored) ? "TABLE..." : source.path.string());
    for (const auto& [role, option] :
         {std::pair("image", "--url-column"), std::pair("caption", "--caption-column")}) {
      const auto named = source.options.columns.find(role);
      if (named != source.options.columns.end()) advice += fmt::format(" {} {}", option, named->second);
    }
  }
  return text + advice;
}

}  // namespace

Result<DatasetSource> parse_dataset_source(std::string_view text, const DatasetOptions& defaults) {
  std::error_code ignored;
  const size_t mark = text.rfind('#');
  if (mark == std::string_view::npos || fs::exists(fs::path(text), ignored)) {
    return DatasetSource(fs::path(text), defaults);
  }
  DatasetSource source(fs::path(text.substr(0, mark)), defaults);
  for (std::string_view rest = text.substr(mark + 1); !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return fail(ErrorCode::kUsage, "{}: \"{}\" is not key=value, as split=test is", text, pair);
    }
    SACCADE_TRY(set_option(pair.substr(0, equals), pair.substr(equals + 1), source.options).in(text));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return source;
}

Result<Dataset> read_dataset(const DatasetSource& source) {
  const std::string where = source.path.string();
  SACCADE_TRY(check_columns(source.options).in(where));
  auto found = data::look_at(source.path);
  if (!found && found.error().code == ErrorCode::kNotFound) {
    if (const std::string help = where_to_get(where); !help.empty()) found.error().message += ". " + help;
  }
  SACCADE_ASSIGN(data::Candidate candidate, std::move(found));
  SACCADE_ASSIGN(const data::Reader* reader, choose_reader(candidate, source.options).in(where));
  SACCADE_ASSIGN(Dataset dataset, reader->read(candidate, source.options).in(where));
  dataset.layout = reader->name;
  dataset.name = name_of(source.path);
  SACCADE_TRY(check_ids(dataset).in(where));
  if (const auto* edits = dataset.find<EditQueries>()) SACCADE_TRY(check_galleries(*edits).in(where));
  SACCADE_TRY(select_split(dataset, source.options.split).in(where));
  if (source.options.skip_missing) skip_missing(dataset);
  if (dataset.size() == 0) return fail(ErrorCode::kBadData, "{}: {}", where, why_empty(dataset, source));
  dataset.hash = content_hash(dataset);
  return dataset;
}

Result<std::string> read_image_bytes(const ImageRef& image, int64_t max_bytes) {
  if (!image.in_archive()) return read_file(image.path, max_bytes);
  if (!image.column.empty()) return data::read_parquet_image(image, max_bytes);
  if (image.size > max_bytes) {
    return fail(ErrorCode::kLimit, "{}: {} bytes, limit {}", image.name(), image.size, max_bytes);
  }
  SACCADE_ASSIGN(const data::PieceFile archive, data::PieceFile::open(image.path));
  // The size is checked before memory is allocated.
  if (image.offset < 0 || image.size < 0 || image.offset > archive.size() ||
      image.size > archive.size() - image.offset) {
    return fail(ErrorCode::kBadData, "{}: {} bytes from byte {} are not in the archive", image.name(),
                image.size, image.offset);
  }
  std::string bytes(static_cast<size_t>(image.size), '\0');
  SACCADE_TRY(archive.read(image.offset, bytes).in(image.name()));
  return bytes;
}

}  // namespace saccade::lab
