#include "lab/data/readers/parquet_layouts.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lab/data/readers/parquet_rows.h"
#include "saccade/core/ascii.h"

namespace saccade::lab::data {
namespace {

namespace fs = std::filesystem;

void note_shard(const ParquetShard& shard, Dataset& dataset) {
  std::error_code error;
  const auto bytes = fs::file_size(shard.path, error);
  dataset.files.push_back({shard.path.string(), error ? 0 : static_cast<int64_t>(bytes), ""});
}

// A query or a document of MTEB: a text or an image.
struct Entry {
  std::string id;
  std::optional<ImageRef> image;
  std::string text;
};

// The queries or the corpus, in their order.
struct Side {
  std::vector<Entry> entries;
  std::unordered_map<std::string, size_t> places;  // by id
  bool images = false;
};

// Returns the first of these folders that is there; empty if none is.
fs::path first_folder(const fs::path& root, std::initializer_list<std::string_view> names) {
  std::error_code error;
  for (const std::string_view name : names) {
    if (fs::is_directory(root / name, error)) return root / name;
  }
  return {};
}
fs::path corpus_folder(const fs::path& root) {
  return first_folder(root, {"corpus"});
}
fs::path query_folder(const fs::path& root) {
  return first_folder(root, {"query", "queries"});
}
fs::path judgement_folder(const fs::path& root) {
  return first_folder(root, {"qrels", "default", "data"});
}

std::set<std::string> splits_of(const std::vector<ParquetShard>& shards) {
  std::set<std::string> splits;
  for (const ParquetShard& shard : shards) splits.insert(shard.split);
  return splits;
}
std::string list_of(const std::set<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Result<std::vector<ParquetShard>> shards_of(const fs::path& folder) {
  SACCADE_ASSIGN(const Candidate inside, look_at(folder));
  return find_parquet_shards(inside);
}

// Returns the shards of a split, or all if the folder has one split only, whatever its name.
Result<std::vector<ParquetShard>> shards_of_split(const fs::path& folder, const std::string& split) {
  SACCADE_ASSIGN(std::vector<ParquetShard> shards, shards_of(folder));
  const std::set<std::string> splits = splits_of(shards);
  if (splits.size() == 1) return shards;
  if (!splits.contains(split)) {
    return fail(ErrorCode::kBadData, "splits {}, none is \"{}\"", list_of(splits), split);
  }
  std::erase_if(shards, [&](const ParquetShard& shard) { return shard.split != split; });
  return shards;
}

Status add_entry(const ParquetRow& row, Side& side) {
  Entry entry;
  if (!row.texts[0] || row.texts[0]->empty()) return fail(ErrorCode::kBadData, "no id");
  entry.id = *row.texts[0];
  entry.image = row.images[0];
  const std::string text = row.texts[1].value_or("");
  if (entry.image && !trim_ascii(text).empty()) {
    return fail(ErrorCode::kUnsupported, "id \"{}\" has an image and a text: only one of them is read",
                entry.id);
  }
  if (!entry.image && trim_ascii(text).empty()) {
    return fail(ErrorCode::kBadData, "id \"{}\" has neither an image nor a text", entry.id);
  }
  if (!entry.image) entry.text = text;
  if (!side.entries.empty() && side.images != entry.image.has_value()) {
    return fail(ErrorCode::kUnsupported, "id \"{}\" is {}, those before are not", entry.id,
                entry.image ? "an image" : "a text");
  }
  side.images = entry.image.has_value();
  if (!side.places.emplace(entry.id, side.entries.size()).second) {
    return fail(ErrorCode::kBadData, "a second row with id \"{}\"", entry.id);
  }
  side.entries.push_back(std::move(entry));
  return {};
}

Result<Side> read_side(const fs::path& folder, const std::string& split, std::string_view own_id,
                       Dataset& dataset) {
  Side side;
  SACCADE_ASSIGN(const std::vector<ParquetShard> shards, shards_of_split(folder, split));
  const ColumnNames texts[] = {{"id", "_id", own_id}, {"text", "query"}};
  const ColumnNames images[] = {{"image"}};
  for (const ParquetShard& shard : shards) {
    note_shard(shard, dataset);
    SACCADE_TRY(for_each_parquet_row(shard, texts, images,
                                     [&](const ParquetRow& row) { return add_entry(row, side); }));
  }
  return side;
}

// Pairs of a query and a document that belong together, by their places.
using Pairs = std::set<std::pair<size_t, size_t>>;

Result<Pairs> read_judgements(const std::vector<ParquetShard>& shards, const Side& queries,
                              const Side& corpus, Dataset& dataset) {
  Pairs pairs;
  const ColumnNames columns[] = {{"query-id"}, {"corpus-id"}, {"score"}};
  const auto add = [&](const ParquetRow& row) -> Status {
    for (size_t c = 0; c < 3; ++c) {
      if (!row.texts[c]) return fail(ErrorCode::kBadData, "no value in column \"{}\"", columns[c].front());
    }
    double score = 0;
    const std::string& text = *row.texts[2];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), score);
    if (error != std::errc() || end != text.data() + text.size()) {
      return fail(ErrorCode::kBadData, "score \"{}\" is no number", text);
    }
    if (!(score > 0)) return {};
    const auto query = queries.places.find(*row.texts[0]);
    if (query == queries.places.end())
      return fail(ErrorCode::kBadData, "no query has id \"{}\"", *row.texts[0]);
    const auto document = corpus.places.find(*row.texts[1]);
    if (document == corpus.places.end()) {
      return fail(ErrorCode::kBadData, "the corpus has no id \"{}\"", *row.texts[1]);
    }
    pairs.emplace(query->second, document->second);
    return {};
  };
  for (const ParquetShard& shard : shards) {
    note_shard(shard, dataset);
    SACCADE_TRY(for_each_parquet_row(shard, columns, {}, add));
  }
  return pairs;
}

// Returns the split of the qrels to read.
Result<std::string> chosen_split(const std::vector<ParquetShard>& judgements, const std::string& asked) {
  const std::set<std::string> splits = splits_of(judgements);
  if (asked.empty() && splits.size() == 1) return *splits.begin();
  if (asked.empty()) {
    return fail(ErrorCode::kUsage, "qrels of several splits ({}): name one with split=NAME", list_of(splits));
  }
  if (!splits.contains(asked)) {
    return fail(ErrorCode::kUsage, "no split \"{}\" of qrels; there are {}", asked, list_of(splits));
  }
  return asked;
}

}  // namespace

bool has_winoground_columns(const ParquetShard& shard) {
  const auto file = PieceFile::open(shard.path);
  if (!file) return false;
  const auto footer = read_parquet_footer(*file);
  if (!footer) return false;
  const auto has = [&](std::string_view name) { return find_parquet_column(*footer, {name}) != nullptr; };
  return has("caption_0") && has("caption_1") && has("image_0") && has("image_1");
}

Result<Dataset> read_winoground_parquet(const std::vector<ParquetShard>& shards) {
  Dataset dataset{.content = CompositionTests()};
  const ColumnNames texts[] = {{"id"}, {"caption_0"}, {"caption_1"}, {"collapsed_tag", "tag"}};
  const ColumnNames images[] = {{"image_0"}, {"image_1"}};
  for (const ParquetShard& shard : shards) {
    note_shard(shard, dataset);
    const auto add = [&](const ParquetRow& row) -> Status {
      CompositionItem item;
      item.id = row.texts[0].value_or(fmt::format("{}{}", shard.prefix, row.row));
      for (size_t side = 0; side < 2; ++side) {
        const std::optional<std::string>& caption = row.texts[1 + side];
        if (!caption) return fail(ErrorCode::kBadData, "column \"caption_{}\" is null", side);
        if (!row.images[side]) return fail(ErrorCode::kBadData, "column \"image_{}\" has no image", side);
        item.captions.push_back(*caption);
        item.images.push_back(*row.images[side]);
      }
      item.kind = row.texts[3].value_or("");
      item.split = shard.split;
      dataset.as<CompositionTests>().items.push_back(std::move(item));
      return {};
    };
    SACCADE_TRY(for_each_parquet_row(shard, texts, images, add));
  }
  return dataset;
}

bool is_mteb(const Candidate& candidate) {
  if (!candidate.folder || !candidate.has("corpus")) return false;
  const auto has_shards = [](const fs::path& folder) {
    if (folder.empty()) return false;
    const auto shards = shards_of(folder);
    return shards && !shards->empty();
  };
  return has_shards(corpus_folder(candidate.path)) && has_shards(query_folder(candidate.path)) &&
         has_shards(judgement_folder(candidate.path));
}

Result<Dataset> read_mteb(const Candidate& candidate, const DatasetOptions& options) {
  Dataset dataset;
  SACCADE_ASSIGN(std::vector<ParquetShard> judged, shards_of(judgement_folder(candidate.path)));
  SACCADE_ASSIGN(const std::string split, chosen_split(judged, options.split));
  std::erase_if(judged, [&](const ParquetShard& shard) { return shard.split != split; });
  SACCADE_ASSIGN(const Side corpus,
                 read_side(corpus_folder(candidate.path), split, "corpus-id", dataset).in("corpus"));
  SACCADE_ASSIGN(const Side queries,
                 read_side(query_folder(candidate.path), split, "query-id", dataset).in("queries"));
  if (corpus.images == queries.images) {
    return fail(ErrorCode::kUnsupported, "queries and corpus are both {}, expected texts and images",
                corpus.images ? "images" : "texts");
  }
  SACCADE_ASSIGN(const Pairs pairs, read_judgements(judged, queries, corpus, dataset).in("qrels"));
  const Side& images = corpus.images ? corpus : queries;
  const Side& texts = corpus.images ? queries : corpus;
  std::vector<std::set<size_t>> texts_of(images.entries.size());
  std::vector<bool> related(texts.entries.size());
  for (const auto& [query, document] : pairs) {
    const size_t image = corpus.images ? document : query;
    const size_t text = corpus.images ? query : document;
    texts_of[image].insert(text);
    related[text] = true;
  }
  for (size_t t = 0; t < related.size(); ++t) {
    if (!related[t]) dataset.exclude("captions without an image", texts.entries[t].id);
  }
  for (size_t i = 0; i < images.entries.size(); ++i) {
    // Queries that are not judged are no part of the task; documents are part of the gallery.
    if (texts_of[i].empty() && !corpus.images) {
      dataset.exclude("images without captions", images.entries[i].id);
      continue;
    }
    DatasetItem item;
    item.id = images.entries[i].id;
    item.image = *images.entries[i].image;
    item.split = split;
    for (const size_t text : texts_of[i]) add_caption(dataset, item, texts.entries[text].text);
    dataset.as<CaptionedImages>().items.push_back(std::move(item));
  }
  return dataset;
}

}  // namespace saccade::lab::data
