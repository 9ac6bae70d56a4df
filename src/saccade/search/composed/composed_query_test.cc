// Queries that a composer makes: the row is the composer's, and what is said of it is what it did.
#include "saccade/search/composed/composed_query.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
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
#include "saccade/search/query_rows.h"

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
  EXPECT_EQ(sum.composition, nullptr);
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
  EXPECT_EQ(encode(words_alone)->composition, nullptr);
  SearchQuery picture_alone = asked;
  picture_alone.text = {};
  EXPECT_EQ(encode(picture_alone)->composition, nullptr);
}

TEST_F(Composing, SaysWhichWordsMetWhichPatches) {
  SearchQuery asked = query("photo of red");
  // At -1 every pair is alike.
  asked.fusion = composer({{"tau", -1.0}, {"matching", "all"}});
  const EncodedQuery encoded = encode(asked).value();
  ASSERT_NE(encoded.composition, nullptr);
  const Composition& all = *encoded.composition;
  EXPECT_EQ(all.composer, "atf");
  EXPECT_EQ(all.kind, "atf");
  EXPECT_EQ(all.tokens, 5);  // start, three words, end
  EXPECT_EQ(all.matched, 5);
  EXPECT_EQ(all.rows, 4);
  ASSERT_EQ(all.met.size(), 5U);
  EXPECT_EQ(all.met[0].end, 0U);  // the start is no word
  EXPECT_EQ(asked.text.str().substr(all.met[3].begin, all.met[3].end - all.met[3].begin), "red");
  EXPECT_EQ(all.met[3].patches.size(), 17U);  // the whole and 4 x 4
  EXPECT_TRUE(std::ranges::is_sorted(all.met[3].patches, std::greater<>(), &Composition::Patch::cosine));
  EXPECT_EQ(std::ranges::count_if(all.met[3].patches, &Composition::Patch::whole), 1);
  EXPECT_THAT(composition_note(all),
              HasSubstr("composer atf (atf): 5 of 5 tokens of the text, start and end among "
                        "them, met the picture at tau -1"));
  const std::string text = composition_text(all, asked.text.str());
  EXPECT_THAT(text, HasSubstr("  red met "));
  EXPECT_THAT(text, HasSubstr(" and 13 more\n"));
  const Json json = composition_json(all, asked.text.str());
  EXPECT_EQ(json["method"], "composer");
  EXPECT_EQ(json["met"][3]["word"], "red");
  EXPECT_EQ(json["met"][0]["word"], nullptr);
  EXPECT_EQ(json["grid"]["rows"], 4);
  // Above 1 none is.
  asked.fusion = composer({{"tau", 1.5}});
  const EncodedQuery none = encode(asked).value();
  EXPECT_EQ(none.composition->matched, 0);
  EXPECT_THAT(composition_note(*none.composition), HasSubstr("0 of 5 tokens"));
  EXPECT_EQ(composition_text(*none.composition, asked.text.str()), "");
}

TEST_F(Composing, RefusesWhatAComposerCannotAsk) {
  SearchQuery asked = query("photo of red");
  asked.fusion = composer();
  asked.text = QueryText("red blue:2", {{"red", 1}, {"blue", 2}}, {});
  const auto refused = encode(asked);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("one picture and one text"));
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
  asked.fold_duplicates = false;
  const auto answer = search(collection, *encoder_, asked, pool);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_NE(answer->composition, nullptr);
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

}  // namespace
}  // namespace saccade
