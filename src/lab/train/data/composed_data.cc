#include "lab/train/data/composed_data.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lab/data/dataset_json.h"
#include "lab/data/edit_queries.h"
#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "lab/eval/evaluation.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/core/half.h"
#include "saccade/core/hash.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/composers/token_states.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kShuffle = 31;  // purpose of keyed random numbers (random.h)
constexpr int kStoreVersion = 1;   // stored version; files of another are made again
constexpr int64_t kAtOnce = 512;   // images or texts

// Numbers distinct names.
class Numbers {
 public:
  // Returns the number, and whether it is new.
  std::pair<int64_t, bool> of(const std::string& name) {
    const auto [place, fresh] = numbers_.try_emplace(name, std::ssize(numbers_));
    return {place->second, fresh};
  }

 private:
  std::unordered_map<std::string, int64_t> numbers_;
};

// Returns the texts that stand for a query's own, blank ones left out: one, or several that are drawn from.
std::vector<std::string> own_wordings(const EditQuery& query, TrainedJoin join) {
  const JoinTexts orders = join == TrainedJoin::kAnd ? JoinTexts::kAnd : JoinTexts::kBothOrders;
  std::vector<std::string> wordings = said_texts(query.texts, {}, {.join = orders}).front();
  if (join == TrainedJoin::kParts && wordings.size() > 1) {
    for (const std::string& text : query.texts) wordings.push_back(as_sentence(text));
  }
  std::erase(wordings, "");
  return wordings;
}

class DataReader {
 public:
  explicit DataReader(const ComposedTrainingOptions& options) : options_(options) {}

  Result<ComposedData> read() {
    SACCADE_ASSIGN(const std::vector<NamedDataset> training, read_datasets(options_.datasets));
    SACCADE_ASSIGN(std::vector<NamedDataset> held_out, read_datasets(options_.held_out));
    SACCADE_ASSIGN(std::vector<NamedDataset> test, read_datasets(options_.test));
    data_.description = {{"datasets", Json::array()}, {"held_out", Json::array()}, {"test", Json::array()}};
    std::set<std::string> hashes;
    for (const NamedDataset& named : training) {
      SACCADE_TRY(add_training(named).in(named.name));
      hashes.insert(named.dataset.hash);
    }
    if (data_.triplets.empty()) {
      return fail(ErrorCode::kBadData, "no edit query with a text and a target: nothing to train on");
    }
    data_.triplets.push_back({.targets_begin = static_cast<int32_t>(data_.targets.size()),
                              .texts_begin = static_cast<int32_t>(data_.wordings.size())});
    for (auto& [sets, role, kept] :
         {std::tuple{&held_out, "held_out", &data_.held_out}, {&test, "test", &data_.test}}) {
      for (NamedDataset& named : *sets) {
        if (!hashes.insert(named.dataset.hash).second) {
          return fail(ErrorCode::kUsage, "{}: elsewhere in this training too: what is held out must be apart",
                      named.name);
        }
        SACCADE_TRY(add_held_out(std::move(named), role, *kept));
      }
    }
    return std::move(data_);
  }

 private:
  int32_t picture(const ImageRef& image) {
    const auto [number, fresh] = picture_numbers_.of(image.name());
    if (fresh) data_.pictures.push_back(image);
    return static_cast<int32_t>(number);
  }
  int32_t text(const std::string& words) {
    const auto [number, fresh] = text_numbers_.of(words);
    if (fresh) data_.texts.push_back(words);
    return static_cast<int32_t>(number);
  }

  Status add_training(const NamedDataset& named) {
    const Dataset& dataset = named.dataset;
    SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
    const GalleryIndex index(*edits);
    PseudoTargets pseudo;
    if (options_.align == AlignTargets::kPseudo) {
      SACCADE_ASSIGN(
          pseudo, read_pseudo_targets(options_.pseudo_targets, dataset, {.min_cosine = options_.min_cosine}));
    }
    int64_t without_target = 0;
    int64_t without_text = 0;
    for (size_t q = 0; q < edits->items.size(); ++q) {
      const EditQuery& query = edits->items[q];
      std::vector<std::string> wordings = own_wordings(query, options_.join);
      const auto own = std::ssize(wordings);
      wordings.insert(wordings.end(), query.paraphrases.begin(), query.paraphrases.end());
      std::erase(wordings, "");
      if (query.targets.empty() || wordings.empty()) {
        ++(query.targets.empty() ? without_target : without_text);
        continue;
      }
      ComposedTriplet triplet;
      SACCADE_ASSIGN(const size_t reference, index.at(query.gallery, query.reference));
      triplet.reference = picture(edits->gallery[reference].image);
      triplet.group = static_cast<int32_t>(
          group_numbers_.of(query.group.empty() ? fmt::format("\n{}", query.id) : query.group).first);
      triplet.targets_begin = static_cast<int32_t>(data_.targets.size());
      triplet.texts_begin = static_cast<int32_t>(data_.wordings.size());
      // Without a text of its own, the first paraphrase is its own.
      triplet.own_wordings = static_cast<int32_t>(std::max<int64_t>(1, own));
      for (const std::string& target : query.targets) {
        SACCADE_ASSIGN(const size_t place, index.at(query.gallery, target));
        data_.targets.push_back(picture(edits->gallery[place].image));
      }
      for (const std::string& wording : wordings) data_.wordings.push_back(text(wording));
      if (!pseudo.pictures.empty() && pseudo.pictures[q]) triplet.pseudo = picture(*pseudo.pictures[q]);
      data_.triplets.push_back(triplet);
    }
    Json described = {{"name", named.name},
                      {"layout", dataset.layout},
                      {"sha256", dataset.hash},
                      {"queries", dataset.size()},
                      {"without_target", without_target},
                      {"without_text", without_text},
                      {"excluded", exclusion_counts(dataset.excluded)}};
    if (!pseudo.pictures.empty()) {
      described["pseudo_targets"] = {{"there", pseudo.there},
                                     {"failed", pseudo.failed},
                                     {"absent", pseudo.absent},
                                     {"below", pseudo.below}};
    }
    data_.description["datasets"].push_back(std::move(described));
    return {};
  }

  Status add_held_out(NamedDataset named, const char* role, std::vector<HeldOutQueries>& sets) {
    SACCADE_TRY(named.dataset.need<EditQueries>());
    HeldOutQueries& set = sets.emplace_back();
    set.name = named.name;
    set.dataset = std::move(named.dataset);
    auto& edits = set.dataset.as<EditQueries>();
    for (EditQuery& query : edits.items) query.paraphrases.clear();
    for (const GalleryPicture& each : edits.gallery) picture(each.image);
    SACCADE_ASSIGN(set.task, composed_task(set.dataset, {}, {}));
    if (!set.task.has_targets()) {
      return fail(ErrorCode::kUsage, "{}: its targets are kept back, so nothing can be measured", set.name);
    }
    for (const ComposedTask::Asked& asked : set.task.asked) text(asked.texts.front());
    data_.description[role].push_back({{"name", set.name},
                                       {"layout", set.dataset.layout},
                                       {"sha256", set.dataset.hash},
                                       {"queries", set.task.queries.size()},
                                       {"gallery", set.task.pictures.size()},
                                       {"excluded", exclusion_counts(set.dataset.excluded)}});
    return {};
  }

  const ComposedTrainingOptions& options_;
  ComposedData data_;
  Numbers picture_numbers_, text_numbers_, group_numbers_;
};

// Returns the hash of a stored file's inputs; empty if an image's file could change unnoticed.
std::string made_of(const LoadedEncoder& loaded, std::string_view what, std::span<const ImageRef> pictures,
                    const EmbedOptions& embed) {
  Sha256 hash;
  const EncoderBackend& encoder = *loaded.encoder;
  hash.update(fmt::format("{} of version {}\n{}\n{}\n{}\n{}\n", what, kStoreVersion,
                          encoder.info().fingerprint, static_cast<int>(encoder.info().precision),
                          embed.as_stored,
                          with_transparency(encoder.preprocessing(), embed.transparency).describe()));
  std::string last;
  for (const ImageRef& picture : pictures) {
    if (picture.path != last) {
      const auto stamp = file_stamp(picture.path);
      if (stamp && !is_settled(*stamp)) return {};
      hash.update(stamp ? stamp->text() : std::string("none"));
      last = picture.path;
    }
    hash.update(
        fmt::format(" {} {} {} {}\n", picture.path.string(), picture.offset, picture.size, picture.column));
  }
  return hash.hex();
}

fs::path stored_path(const fs::path& cache, std::string_view what, const std::string& key) {
  return cache / (key.empty() ? std::string(what) : fmt::format("{}-{}", what, key.substr(0, 16)));
}

std::vector<int64_t> even_begins(int64_t items, int64_t bytes) {
  std::vector<int64_t> begin(static_cast<size_t>(items) + 1);
  for (size_t i = 0; i < begin.size(); ++i) begin[i] = static_cast<int64_t>(i) * bytes;
  return begin;
}

std::vector<std::byte> halves(std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = float_to_fp16(values[i]);
    std::copy_n(reinterpret_cast<const std::byte*>(&half), 2,
                bytes.begin() + static_cast<std::ptrdiff_t>(2 * i));
  }
  return bytes;
}

// body(pixels) returns the bytes of images, item by item.
using PictureBytes = std::function<Result<std::vector<std::byte>>(MatrixView<const float> pixels)>;

// Returns the images' bytes from the existing file, or reads the images and writes it.
Result<ItemFile> store_pictures(const LoadedEncoder& loaded, const ComposedData& data, std::string_view what,
                                int64_t bytes_each, const fs::path& cache, const EmbedOptions& embed,
                                ThreadPool& pool, const PictureBytes& body) {
  const std::string key = made_of(loaded, what, data.pictures, embed);
  const fs::path path = stored_path(cache, what, key);
  const auto count = std::ssize(data.pictures);
  std::error_code ignored;
  if (!key.empty() && fs::exists(path, ignored)) {
    if (auto there = ItemFile::open(path, even_begins(count, bytes_each))) return there;
  }
  SACCADE_TRY(make_folders(cache));
  SACCADE_ASSIGN(ItemFileWriter writer, ItemFileWriter::create(path));
  const PixelOptions reading =
      pixel_options(with_transparency(loaded.encoder->preprocessing(), embed.transparency),
                    {.apply_orientation = !embed.as_stored, .processes = embed.processes});
  for (int64_t first = 0; first < count; first += kAtOnce) {
    if (embed.stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while images were read");
    const int64_t n = std::min(kAtOnce, count - first);
    const auto ref = [&](int64_t i) -> const ImageRef& {
      return data.pictures[static_cast<size_t>(first + i)];
    };
    const PixelBatch batch = read_pixels(
        n, [&](int64_t i) { return read_image_bytes(ref(i), reading.decode.max_bytes); }, reading, pool);
    SACCADE_ASSIGN(const std::vector<std::byte> made, body(batch.rows()));
    size_t read = 0;
    size_t failed = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (read < batch.which.size() && batch.which[read] == i) {
        SACCADE_TRY(writer.add(std::span(made).subspan(read * static_cast<size_t>(bytes_each),
                                                       static_cast<size_t>(bytes_each))));
        ++read;
      } else {
        SACCADE_TRY(writer.skip(bytes_each,
                                fmt::format("{}: {}", ref(i).name(), batch.failed[failed].second.message)));
        ++failed;
      }
    }
    if (embed.progress) embed.progress({.what = what, .done = first + n, .total = count, .detail = ""});
  }
  SACCADE_TRY(writer.finish());
  return ItemFile::open(path, even_begins(count, bytes_each));
}

}  // namespace

std::span<const int32_t> ComposedData::targets_of(int64_t triplet) const {
  const auto at = static_cast<size_t>(triplet);
  return std::span(targets).subspan(
      static_cast<size_t>(triplets[at].targets_begin),
      static_cast<size_t>(triplets[at + 1].targets_begin - triplets[at].targets_begin));
}

std::span<const int32_t> ComposedData::wordings_of(int64_t triplet) const {
  const auto at = static_cast<size_t>(triplet);
  return std::span(wordings).subspan(
      static_cast<size_t>(triplets[at].texts_begin),
      static_cast<size_t>(triplets[at + 1].texts_begin - triplets[at].texts_begin));
}

Result<ComposedData> read_composed_data(const ComposedTrainingOptions& options) {
  return DataReader(options).read();
}

Status settle_composed_data(const ComposedTrainingOptions& options, const ItemFile& pictures,
                            ComposedData& data) {
  std::vector<ComposedTriplet> kept;
  std::vector<int32_t> targets;
  std::vector<int32_t> wordings;
  int64_t unreadable = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    ComposedTriplet triplet = data.triplets[static_cast<size_t>(i)];
    const auto own = data.targets_of(i);
    const bool whole = pictures.has(triplet.reference) &&
                       std::ranges::all_of(own, [&](int32_t target) { return pictures.has(target); });
    if (!whole) {
      ++unreadable;
      continue;
    }
    if (triplet.pseudo >= 0 && !pictures.has(triplet.pseudo)) triplet.pseudo = -1;
    triplet.targets_begin = static_cast<int32_t>(targets.size());
    targets.insert(targets.end(), own.begin(), own.end());
    const auto said = data.wordings_of(i);
    triplet.texts_begin = static_cast<int32_t>(wordings.size());
    wordings.insert(wordings.end(), said.begin(), said.end());
    kept.push_back(triplet);
  }
  if (std::ssize(kept) < options.batch) {
    return fail(ErrorCode::kBadData, "--batch-size is too large: a batch of {} from {}{}", options.batch,
                counted(std::ssize(kept), "triplet"),
                unreadable > 0 ? fmt::format("; of {} more an image cannot be read, the first: {}",
                                             unreadable, pictures.left_out().front())
                               : std::string());
  }
  kept.push_back({.targets_begin = static_cast<int32_t>(targets.size()),
                  .texts_begin = static_cast<int32_t>(wordings.size())});
  data.triplets = std::move(kept);
  data.targets = std::move(targets);
  data.wordings = std::move(wordings);
  data.description["triplets"] = data.size();
  data.description["unreadable_triplets"] = unreadable;
  std::unordered_map<std::string, int64_t> picture_numbers;
  for (size_t i = 0; i < data.pictures.size(); ++i)
    picture_numbers[data.pictures[i].name()] = static_cast<int64_t>(i);
  std::unordered_map<std::string, int64_t> text_numbers;
  for (size_t i = 0; i < data.texts.size(); ++i) text_numbers[data.texts[i]] = static_cast<int64_t>(i);
  const auto settle = [&](HeldOutQueries& set) -> Status {
    std::vector<int64_t> missing;
    for (size_t i = 0; i < set.dataset.as<EditQueries>().gallery.size(); ++i) {
      if (!pictures.has(picture_numbers.at(set.dataset.as<EditQueries>().gallery[i].image.name()))) {
        missing.push_back(static_cast<int64_t>(i));
      }
    }
    SACCADE_ASSIGN(set.task, composed_task(set.dataset, {}, missing));
    set.pictures.clear();
    set.texts.clear();
    for (const GalleryPicture& each : set.task.pictures)
      set.pictures.push_back(picture_numbers.at(each.image.name()));
    for (const ComposedTask::Asked& asked : set.task.asked)
      set.texts.push_back(text_numbers.at(asked.texts.front()));
    return {};
  };
  for (HeldOutQueries& set : data.held_out) SACCADE_TRY(settle(set));
  for (HeldOutQueries& set : data.test) SACCADE_TRY(settle(set));
  return {};
}

void StoredPixels::read(int64_t picture, std::span<float> out) const {
  const std::span<const std::byte> bytes = file.bytes(picture);
  const size_t plane = bytes.size() / 3;
  for (size_t channel = 0; channel < 3; ++channel) {
    const float mean = preprocessing.mean[channel];
    const float std = preprocessing.std[channel];
    for (size_t i = channel * plane; i < (channel + 1) * plane; ++i) {
      const auto level = static_cast<float>(std::to_integer<uint8_t>(bytes[i]));
      out[i] = (level * preprocessing.rescale_factor + preprocessing.rescale_offset - mean) / std;
    }
  }
}

Result<StoredPixels> store_pixels(const LoadedEncoder& loaded, const ComposedData& data,
                                  const fs::path& cache, const EmbedOptions& embed, ThreadPool& pool) {
  StoredPixels stored;
  stored.preprocessing = loaded.encoder->preprocessing();
  const Preprocessing& how = stored.preprocessing;
  const EncoderInfo& info = loaded.encoder->info();
  const int64_t values = int64_t{3} * info.image_height * info.image_width;
  const auto levels = [&](MatrixView<const float> pixels) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes(static_cast<size_t>(pixels.rows() * values));
    for (int64_t r = 0; r < pixels.rows(); ++r) {
      for (int64_t i = 0; i < values; ++i) {
        const auto channel = static_cast<size_t>(i / (values / 3));
        const float value = pixels(r, i) * how.std[channel] + how.mean[channel] - how.rescale_offset;
        const float level = std::clamp(std::round(value / how.rescale_factor), 0.0F, 255.0F);
        bytes[static_cast<size_t>(r * values + i)] = static_cast<std::byte>(static_cast<uint8_t>(level));
      }
    }
    return bytes;
  };
  SACCADE_ASSIGN(stored.file, store_pictures(loaded, data, "pixels", values, cache, embed, pool, levels));
  return stored;
}

Result<StoredTokens> store_picture_tokens(const LoadedEncoder& loaded, const ComposedData& data, bool all,
                                          const fs::path& cache, const EmbedOptions& embed,
                                          ThreadPool& pool) {
  StoredTokens stored;
  EncoderBackend& encoder = *loaded.encoder;
  stored.dim = encoder.info().dim;
  const int64_t each = all ? encoder.token_states()->picture_tokens() : 1;
  stored.tokens.assign(data.pictures.size(), each);
  const auto states = [&](MatrixView<const float> pixels) -> Result<std::vector<std::byte>> {
    if (!all) {
      SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_images(pixels));
      return halves(rows.values());
    }
    SACCADE_ASSIGN(const RowSets rows, encoder.token_states()->image_tokens(pixels));
    return halves(rows.rows.values());
  };
  SACCADE_ASSIGN(stored.file, store_pictures(loaded, data, all ? "picture-tokens" : "picture-rows",
                                             each * stored.dim * 2, cache, embed, pool, states));
  return stored;
}

Result<StoredTokens> store_vision_states(const LoadedEncoder& loaded, const ComposedData& data,
                                         const fs::path& cache, const EmbedOptions& embed, ThreadPool& pool) {
  constexpr auto kState = FrozenFeatures::ImageState::kVision;
  constexpr int64_t kEncoded = 32;  // images whose states are in single precision at a time
  FrozenFeatures* features = loaded.encoder->frozen_features();
  if (features == nullptr || features->image_width(kState) == 0) {
    return fail(ErrorCode::kUnsupported, "{}: it gives no states of its vision tower",
                loaded.encoder->info().family);
  }
  StoredTokens stored;
  stored.dim = features->image_width(kState);
  const int64_t each = features->image_rows(kState);
  stored.tokens.assign(data.pictures.size(), each);
  const auto states = [&](MatrixView<const float> pixels) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(pixels.rows() * each * stored.dim * 2));
    for (int64_t first = 0; first < pixels.rows(); first += kEncoded) {
      const int64_t count = std::min(kEncoded, pixels.rows() - first);
      SACCADE_ASSIGN(const RowSets rows, features->image_features(pixels.slice(first, count), kState));
      const std::vector<std::byte> some = halves(rows.rows.values());
      bytes.insert(bytes.end(), some.begin(), some.end());
    }
    return bytes;
  };
  SACCADE_ASSIGN(stored.file, store_pictures(loaded, data, "vision-states", each * stored.dim * 2, cache,
                                             embed, pool, states));
  return stored;
}

Result<StoredTokens> store_text_tokens(const LoadedEncoder& loaded, std::span<const TokenizedText> texts,
                                       bool all, const fs::path& cache, const EmbedOptions& embed) {
  StoredTokens stored;
  EncoderBackend& encoder = *loaded.encoder;
  stored.dim = encoder.info().dim;
  std::vector<int64_t> begin = {0};
  Sha256 hash;
  hash.update(fmt::format("texts of version {}\n{}\n{}\n", kStoreVersion, encoder.info().fingerprint,
                          static_cast<int>(encoder.info().precision)));
  for (const TokenizedText& text : texts) {
    stored.tokens.push_back(all ? std::ssize(text.ids) : 1);
    begin.push_back(begin.back() + stored.tokens.back() * stored.dim * 2);
    hash.update(fmt::format("{} ", text.ids.size()));
    hash.update(std::as_bytes(std::span(text.ids)));
  }
  const std::string what = all ? "text-tokens" : "text-rows";
  const fs::path path = stored_path(cache, what, hash.hex());
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    if (auto there = ItemFile::open(path, begin)) {
      stored.file = *std::move(there);
      return stored;
    }
  }
  SACCADE_TRY(make_folders(cache));
  SACCADE_ASSIGN(ItemFileWriter writer, ItemFileWriter::create(path));
  for (size_t first = 0; first < texts.size(); first += kAtOnce) {
    if (embed.stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while texts were encoded");
    const auto part = texts.subspan(first, std::min<size_t>(kAtOnce, texts.size() - first));
    SACCADE_ASSIGN(const RowSets rows,
                   all ? encoder.token_states()->text_tokens(part) : one_each(encoder.encode_texts(part)));
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t count = rows.begin[i + 1] - rows.begin[i];
      const std::span<const float> values(rows.rows.data() + rows.begin[i] * stored.dim,
                                          static_cast<size_t>(count * stored.dim));
      SACCADE_TRY(writer.add(halves(values)));
    }
    if (embed.progress) {
      embed.progress({.what = "texts",
                      .done = static_cast<int64_t>(first + part.size()),
                      .total = std::ssize(texts),
                      .detail = ""});
    }
  }
  SACCADE_TRY(writer.finish());
  SACCADE_ASSIGN(stored.file, ItemFile::open(path, begin));
  return stored;
}

GroupedOrder::GroupedOrder(const ComposedData& data, int64_t together, uint64_t seed)
    : size_(data.size()), together_(together), seed_(seed) {
  std::unordered_map<int32_t, size_t> places;
  for (int64_t i = 0; i < size_; ++i) {
    const int32_t group = data.triplets[static_cast<size_t>(i)].group;
    const auto [place, fresh] = places.try_emplace(group, groups_.size());
    if (fresh) groups_.emplace_back();
    groups_[place->second].push_back(i);
  }
}

int64_t GroupedOrder::at(int64_t place) {
  if (place / size_ != epoch_) {
    epoch_ = place / size_;
    KeyedRandom random(seed_, kShuffle, static_cast<uint64_t>(epoch_));
    const auto shuffle = [&](auto& items) {
      for (size_t i = items.size() - 1; i > 0; --i) std::swap(items[i], items[random.below(i + 1)]);
    };
    // Each group's triplets are shuffled and cut into pieces. Then the pieces are shuffled.
    std::vector<std::vector<int64_t>> pieces;
    for (const std::vector<int64_t>& group : groups_) {
      std::vector<int64_t> order = group;
      shuffle(order);
      for (size_t first = 0; first < order.size(); first += static_cast<size_t>(together_)) {
        const size_t last = std::min(order.size(), first + static_cast<size_t>(together_));
        pieces.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(first),
                            order.begin() + static_cast<std::ptrdiff_t>(last));
      }
    }
    shuffle(pieces);
    order_.clear();
    for (const std::vector<int64_t>& piece : pieces) order_.insert(order_.end(), piece.begin(), piece.end());
  }
  return order_[static_cast<size_t>(place % size_)];
}

}  // namespace saccade::lab
