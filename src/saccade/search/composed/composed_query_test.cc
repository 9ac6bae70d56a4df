// Queries that a composer makes: the row is the composer's, and what is said of it is what it did.
#include "saccade/search/composed/composed_query.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/composers/atf.h"
#include "saccade/model/composers/composer.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/test_tensors.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/composed/composer_trial.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/search/query_rows.h"
#include "saccade/search/search.h"
#include "saccade/search/test_letters.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::TestFolder;
using testing::HasSubstr;

const fs::path kStarter = fs::path(test::kSourceDir) / "models/starter";

class Composing : public testing::Test {
 protected:
  void SetUp() override {
    encoder_ = load_encoder(kStarter).value();
    fs::create_directories(folder_.path() / "pictures");
    for (int i = 0; i < 4; ++i) {
      Image image;
      image.width = image.height = 24;
      image.channels = 3;
      for (int p = 0; p < 24 * 24; ++p) {
        const bool inside = (p / 24 > 6 + i) && (p % 24 > 4 * i);
        for (const int value : {inside ? 200 : 30 * i, 60 * i, inside ? 20 : 230}) {
          image.pixels.push_back(static_cast<uint8_t>(value));
        }
      }
      ASSERT_TRUE(write_file_atomic(picture(i), *encode_png(image)));
    }
    write_composer("atf", Json::object());
  }
  [[nodiscard]] fs::path picture(int number) const {
    return folder_.path() / "pictures" / fmt::format("{}.png", number);
  }
  // Adds both embeddings, as the sum does.
  void write_sum_composer(const std::string& name) const {
    ComposerConfig config;
    config.kind = "sum";
    config.dim = encoder_->info().dim;
    config.encoder = {"starter", "clip", encoder_->info().fingerprint, kStarter.string()};
    const fs::path path = folder_.path() / name;
    fs::create_directories(path);
    test::RandomParameters source(7);
    ASSERT_TRUE(source.take("logit_scale", {}, {}));
    std::vector<NamedTensor> named;
    for (const auto& [each, tensor] : source.parameters()) named.push_back({each, nn::view_of(tensor)});
    ASSERT_TRUE(write_file_atomic(path / "config.json", dump_json(composer_config_json(config))));
    ASSERT_TRUE(write_file_atomic(path / "frozen.json", dump_json({{"path", kStarter.string()}})));
    ASSERT_TRUE(write_safetensors(path / "model.safetensors", named));
  }
  // Weights are drawn by a seed: what is composed is arbitrary, but always the same.
  void write_composer(const std::string& name, const Json& changed,
                      const std::string& fingerprint = {}) const {
    AtfOptions options;
    options.picture_tokens = encoder_->token_states()->picture_tokens();
    options.text_places = encoder_->info().context;
    ComposerConfig config;
    config.kind = "atf";
    config.dim = encoder_->info().dim;
    config.options = atf_options_json(options);
    config.options.update(changed);
    config.encoder = {"starter", "clip", fingerprint.empty() ? encoder_->info().fingerprint : fingerprint,
                      kStarter.string()};
    test::RandomParameters source(7);
    ASSERT_TRUE((AtfOf<nn::Tensor>::make(options, config.dim, source)));
    ASSERT_TRUE(source.take("logit_scale", {}, {}));
    std::vector<NamedTensor> named;
    for (const auto& [each, tensor] : source.parameters()) named.push_back({each, nn::view_of(tensor)});
    const fs::path path = folder_.path() / name;
    fs::create_directories(path);
    ASSERT_TRUE(write_file_atomic(path / "config.json", dump_json(composer_config_json(config))));
    ASSERT_TRUE(write_file_atomic(path / "frozen.json", dump_json({{"path", kStarter.string()}})));
    ASSERT_TRUE(write_safetensors(path / "model.safetensors", named));
  }
  [[nodiscard]] std::shared_ptr<Composer> composer(const Json& changed = Json::object()) const {
    return Composer::open(folder_.path() / "atf", {}, changed).value();
  }
  [[nodiscard]] SearchQuery query(const std::string& text) const {
    SearchQuery query;
    query.text = text;
    query.images = {{picture(1)}};
    return query;
  }
  Result<EncodedQuery> encode(const SearchQuery& query) const {
    return encode_query_rows({}, *encoder_, query, false);
  }
  TestFolder folder_;
  std::unique_ptr<EncoderBackend> encoder_;
};

TEST_F(Composing, TheRowIsTheComposers) {
  SearchQuery asked = query("photo of red");
  const EncodedQuery sum = encode(asked).value();
  EXPECT_EQ(sum.composer_report, nullptr);
  asked.fusion = composer();
  const auto encoded = encode(asked);
  ASSERT_TRUE(encoded) << encoded.error().message;
  const Matrix<float> pixels = query_pixels({}, *encoder_, asked.images.front(), {}).value();
  const std::vector<std::string> words = {"photo of red"};
  const Composed expected = asked.composer()->compose(*encoder_, pixels.view(), words).value();
  const auto row = expected.rows.row(0);
  const std::vector<float> expected_row(row.begin(), row.end());
  EXPECT_THAT(encoded->row, testing::Pointwise(testing::FloatEq(), expected_row));
  EXPECT_NE(encoded->row, sum.row);
  ASSERT_TRUE(encoded->tokens);
  EXPECT_EQ(encoded->tokens->used, 3);
  // Words or a picture alone are what they always were.
  SearchQuery words_alone = asked;
  words_alone.images.clear();
  EXPECT_EQ(encode(words_alone)->composer_report, nullptr);
  SearchQuery picture_alone = asked;
  picture_alone.text = {};
  EXPECT_EQ(encode(picture_alone)->composer_report, nullptr);
}

TEST_F(Composing, SaysWhichWordsMetWhichPatches) {
  SearchQuery asked = query("photo of red");
  // At -1 every pair is alike.
  asked.fusion = composer({{"tau", -1.0}, {"matching", "all"}});
  const EncodedQuery encoded = encode(asked).value();
  ASSERT_NE(encoded.composer_report, nullptr);
  const ComposerReport& all = *encoded.composer_report;
  EXPECT_EQ(all.composer, "atf");
  EXPECT_EQ(all.kind, "atf");
  EXPECT_EQ(all.tokens, 5);  // start, three words, end
  EXPECT_EQ(all.matched, 5);
  EXPECT_EQ(all.rows, 4);
  ASSERT_EQ(all.met.size(), 5U);
  EXPECT_EQ(all.met[0].end, 0U);  // the start is no word
  EXPECT_EQ(asked.text.str().substr(all.met[3].begin, all.met[3].end - all.met[3].begin), "red");
  EXPECT_EQ(all.met[3].patches.size(), 17U);  // the whole and 4 x 4
  EXPECT_TRUE(std::ranges::is_sorted(all.met[3].patches, std::greater<>(), &ComposerReport::Patch::cosine));
  EXPECT_EQ(std::ranges::count_if(all.met[3].patches, &ComposerReport::Patch::whole), 1);
  EXPECT_THAT(composer_note(all),
              HasSubstr("composer atf (atf): 5 of 5 tokens of the text, start and end among "
                        "them, met the image at tau -1"));
  const std::string text = composer_text(all, asked.text.str());
  EXPECT_THAT(text, HasSubstr("  red met "));
  EXPECT_THAT(text, HasSubstr(" and 13 more\n"));
  const Json json = composer_json(all, asked.text.str());
  EXPECT_EQ(json["method"], "composer");
  EXPECT_EQ(json["met"][3]["word"], "red");
  EXPECT_EQ(json["met"][0]["word"], nullptr);
  EXPECT_EQ(json["grid"]["rows"], 4);
  // Above 1 none is.
  asked.fusion = composer({{"tau", 1.5}});
  const EncodedQuery none = encode(asked).value();
  EXPECT_EQ(none.composer_report->matched, 0);
  EXPECT_THAT(composer_note(*none.composer_report), HasSubstr("0 of 5 tokens"));
  EXPECT_EQ(composer_text(*none.composer_report, asked.text.str()), "");
}

// BLIP-2 with a tokenizer, which its golden lacks.
class Blip2WithLetters : public ForwardingEncoder {
 public:
  explicit Blip2WithLetters(std::unique_ptr<EncoderBackend> encoder)
      : ForwardingEncoder(*encoder), encoder_(std::move(encoder)) {}
  [[nodiscard]] const Tokenizer* tokenizer() const override { return &letters_; }

 private:
  std::unique_ptr<EncoderBackend> encoder_;
  test::LetterTokenizer letters_;
};

// SPRC's row is scored by the largest cosine with one of an image's rows.
TEST_F(Composing, OfLateInteractionARowIsComparedWithAllOfAnImage) {
  const fs::path checkpoint = fs::path(test::kSourceDir) / "tests/golden/blip2-itm";
  Blip2WithLetters blip2(load_encoder(checkpoint).value());
  const auto write = [&](const std::string& kind) {
    ComposerConfig config;
    config.kind = kind;
    config.dim = blip2.info().dim;
    config.encoder = {"blip2", blip2.info().family, blip2.info().fingerprint, checkpoint.string()};
    const nn::Tensor scale = nn::Tensor::zeros({});
    const std::vector<NamedTensor> named = {{"logit_scale", nn::view_of(scale)}};
    const fs::path path = folder_.path() / kind;
    fs::create_directories(path);
    ASSERT_TRUE(write_file_atomic(path / "config.json", dump_json(composer_config_json(config))));
    ASSERT_TRUE(write_file_atomic(path / "frozen.json", dump_json({{"path", checkpoint.string()}})));
    ASSERT_TRUE(write_safetensors(path / "model.safetensors", named));
  };
  write("sprc");
  write("sum");
  auto opened = Composer::open(folder_.path() / "sprc");
  ASSERT_TRUE(opened) << opened.error().message;
  SearchQuery asked = query("a cat");
  asked.fusion = std::shared_ptr<Composer>(*std::move(opened));
  asked.group_duplicates = false;
  const auto encoded = encode_query_rows({}, blip2, asked, true);
  ASSERT_TRUE(encoded) << encoded.error().message;
  ASSERT_EQ(encoded->late.rows(), 1);
  const auto late = encoded->late.row(0);
  EXPECT_EQ(std::vector<float>(late.begin(), late.end()), encoded->row);
  EXPECT_EQ(encoded->text_rows, 0);
  ASSERT_NE(encoded->composer_report, nullptr);
  EXPECT_EQ(encoded->composer_report->kind, "sprc");

  ThreadPool pool(2);
  const fs::path at = folder_.path() / "late";
  IngestSettings settings;
  settings.late = late_settings(blip2, RowPrecision::kFp16, 1).value();
  {
    auto writer =
        CollectionWriter::create(at, {"any", "", blip2.info().fingerprint, blip2.info().dim}, settings);
    ASSERT_TRUE(writer) << writer.error().message;
    const auto report = ingest(*writer, blip2, std::vector<fs::path>{folder_.path() / "pictures"}, {}, pool);
    ASSERT_TRUE(report) << report.error().message;
  }
  const CollectionReader collection = CollectionReader::open(at).value();
  const auto answer = search(collection, blip2, asked, pool);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->hits.size(), 4U);
  for (const SearchHit& hit : answer->hits) {
    const Matrix<float> pixels = query_pixels(settings, blip2, QueryImage{hit.item.path}, {}).value();
    const RowSets rows = blip2.late_interaction()->encode_image_rows(pixels.view()).value();
    double largest = -2;
    for (int64_t r = 0; r < rows.rows.rows(); ++r) {
      double dot = 0;
      for (size_t d = 0; d < encoded->row.size(); ++d) {
        dot += double{rows.rows.row(r)[d]} * double{encoded->row[d]};
      }
      largest = std::max(largest, dot);
    }
    EXPECT_NEAR(hit.score, largest, 2e-3);
  }

  auto sum = Composer::open(folder_.path() / "sum");
  ASSERT_TRUE(sum) << sum.error().message;
  asked.fusion = std::shared_ptr<Composer>(*std::move(sum));
  const auto refused = encode_query_rows({}, blip2, asked, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("not by one of kind sum"));
}

TEST_F(Composing, RefusesWhatAComposerCannotAsk) {
  SearchQuery asked = query("photo of red");
  asked.fusion = composer();
  asked.text = QueryText("red blue:2", {{"red", 1}, {"blue", 2}}, {});
  const auto refused = encode(asked);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("one image and one text"));
}

TEST_F(Composing, ACollectionNamesItsComposer) {
  ThreadPool pool(2);
  const fs::path at = folder_.path() / "collection";
  const LoadedEncoder loaded = load_checkpoint(kStarter.string(), {}).value();
  {
    auto writer = CollectionWriter::create(at, loaded.id);
    ASSERT_TRUE(writer) << writer.error().message;
    const auto report =
        ingest(*writer, *loaded.encoder, std::vector<fs::path>{folder_.path() / "pictures"}, {}, pool);
    ASSERT_TRUE(report) << report.error().message;
  }
  const CollectionReader collection = CollectionReader::open(at).value();
  EXPECT_EQ(open_collection_composer(collection).value(), nullptr);
  ASSERT_TRUE(name_composer(collection, folder_.path() / "atf"));
  const auto named = open_collection_composer(collection);
  ASSERT_TRUE(named) << named.error().message;
  ASSERT_NE(*named, nullptr);
  EXPECT_EQ((*named)->name(), "atf");

  SearchQuery asked = query("photo of red");
  asked.fusion = *named;
  asked.group_duplicates = false;
  const auto answer = search(collection, *encoder_, asked, pool);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_NE(answer->composer_report, nullptr);
  EXPECT_THAT(composed_note(*answer), HasSubstr("made by the composer atf"));
  EXPECT_EQ(answer_json(*answer)["query"]["compose"]["composer"], "atf");
  EXPECT_EQ(answer->hits.size(), 4U);

  // Another one in its place, one of another encoder, one that is gone.
  write_composer("atf", {{"tau", 0.5}});
  const auto changed = open_collection_composer(collection);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(changed.error().message, HasSubstr("another one by now"));
  write_composer("other", Json::object(), std::string(64, 'a'));
  const Status refused = name_composer(collection, folder_.path() / "other");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it was trained on starter"));
  fs::remove_all(folder_.path() / "atf");
  const auto gone = open_collection_composer(collection);
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, HasSubstr("composer.json"));
  ASSERT_TRUE(forget_composer(at));
  EXPECT_EQ(open_collection_composer(collection).value(), nullptr);
  ASSERT_TRUE(forget_composer(at));
  ASSERT_TRUE(write_file_atomic(at / "composer.json", "{}"));
  const auto damaged = open_collection_composer(collection);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kBadData);
}

// The share of queries that find a right row within ten, the reference left out, by all products.
double share_found(MatrixView<const float> rows, const std::vector<std::vector<float>>& queries,
                   const std::vector<int64_t>& references, const std::vector<int64_t>& right) {
  double found = 0;
  for (size_t q = 0; q < queries.size(); ++q) {
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t r = 0; r < rows.rows(); ++r) {
      double sum = 0;
      for (size_t i = 0; i < queries[q].size(); ++i) sum += double{rows.row(r)[i]} * queries[q][i];
      if (r != references[q]) scores.emplace_back(-sum, r);
    }
    std::ranges::sort(scores);
    const auto place = std::ranges::find(scores, right[q], &std::pair<double, int64_t>::second);
    found += place - scores.begin() < kTrialDepth ? 1.0 / static_cast<double>(queries.size()) : 0;
  }
  return found;
}

TEST_F(Composing, IsComparedWithTheSumByCaptionsThatDifferInAWord) {
  const std::vector<std::string> colours = {"black", "blue", "green", "red", "white", "yellow"};
  const std::vector<std::string> things = {"apple", "ball", "cat", "door", "fish", "hat"};
  std::vector<std::string> captions;
  for (const std::string& colour : colours) {
    for (const std::string& thing : things) captions.push_back(colour + " " + thing);
  }
  const Matrix<float> rows = encode_all_texts(*encoder_, captions).value();
  const fs::path at = folder_.path() / "captioned";
  const LoadedEncoder loaded = load_checkpoint(kStarter.string(), {}).value();
  {
    CollectionWriter writer = CollectionWriter::create(at, loaded.id).value();
    CollectionChange change;
    for (size_t i = 0; i < captions.size(); ++i) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/{}", i);
      put.item.hash = put.item.path;
      put.item.width = put.item.height = 1;
      put.item.format = "png";
      put.item.caption = captions[i];
      const auto row = rows.row(static_cast<int64_t>(i));
      put.values.assign(row.begin(), row.end());
      change.puts.push_back(std::move(put));
    }
    ASSERT_TRUE(writer.commit(change));
  }
  const CollectionReader collection = CollectionReader::open(at).value();
  write_sum_composer("adds");
  const auto adds = Composer::open(folder_.path() / "adds");
  ASSERT_TRUE(adds) << adds.error().message;
  ThreadPool pool(1);
  const auto trial = try_composer(collection, *encoder_, **adds, pool);
  ASSERT_TRUE(trial) << trial.error().message;
  EXPECT_EQ(trial->reason, "");
  // Each caption with the next colour, and with the next thing.
  std::vector<std::vector<float>> queries;
  std::vector<int64_t> references;
  std::vector<int64_t> right;
  const auto ask = [&](size_t reference, const std::string& change, size_t target) {
    const Matrix<float> text = encode_all_texts(*encoder_, {change}).value();
    references.push_back(static_cast<int64_t>(reference));
    right.push_back(static_cast<int64_t>(target));
    std::vector<float>& query = queries.emplace_back();
    for (size_t i = 0; i < text.row(0).size(); ++i) {
      query.push_back(text.row(0)[i] + rows.row(references.back())[i]);
    }
  };
  for (size_t c = 0; c < 6; ++c) {
    for (size_t t = 0; t < 6; ++t) {
      ask(6 * c + t, colours[(c + 1) % 6], 6 * ((c + 1) % 6) + t);
      ask(6 * c + t, things[(t + 1) % 6], 6 * c + (t + 1) % 6);
    }
  }
  EXPECT_EQ(trial->queries, std::ssize(queries));
  const double expected = share_found(rows.view(), queries, references, right);
  EXPECT_GT(expected, 0.2);
  EXPECT_NEAR(trial->sum, expected, 1e-9);
  EXPECT_NEAR(trial->composer, expected, 1e-9);
  EXPECT_FALSE(trial->better) << "it is the sum";
  EXPECT_THAT(trial_text(*trial), HasSubstr("of 72 captions that differ in one word"));

  // It joins tokens, which a collection does not keep.
  const auto joins = try_composer(collection, *encoder_, *composer(), pool);
  ASSERT_TRUE(joins) << joins.error().message;
  EXPECT_THAT(joins->reason, HasSubstr("needs more than the stored embeddings"));
  EXPECT_FALSE(joins->better);
}

TEST(ComposerTrial, IsBetterByTwoStandardErrors) {
  std::vector<double> composer(100, 0);
  std::vector<double> sum(100, 0);
  std::fill_n(composer.begin(), 10, 1);
  EXPECT_TRUE(compared(composer, sum).better);
  EXPECT_NEAR(compared(composer, sum).difference, 0.1, 1e-12);
  // The standard deviation of 10 ones among 100 values is 0.3015.
  EXPECT_NEAR(compared(composer, sum).error, 0.03015, 1e-4);
  EXPECT_FALSE(compared(sum, composer).better);
  std::fill_n(sum.begin() + 10, 8, 1);
  EXPECT_FALSE(compared(composer, sum).better) << "ten won, eight lost";
}

}  // namespace
}  // namespace saccade
