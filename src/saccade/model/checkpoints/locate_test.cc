// Tests of checkpoint names, their resolution, and warnings about loaded checkpoints.
#include "saccade/model/checkpoints/locate.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/model_test_support.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using test::golden;
using test::TestVariable;

constexpr const char* kCommit = "00112233445566778899aabbccddeeff00112233";

// A golden as another tool would have left it in the hub's cache, under owner/tiny.
class Cache {
 public:
  explicit Cache(const std::string& name) {
    const fs::path model = folder_.path() / "models--owner--tiny";
    fs::create_directories(model / "refs");
    fs::create_directories(model / "snapshots");
    fs::copy(golden(name), snapshot(), fs::copy_options::recursive);
    test::write_text(model / "refs/main", kCommit);
  }
  [[nodiscard]] fs::path snapshot() const {
    return folder_.path() / "models--owner--tiny/snapshots" / kCommit;
  }

 private:
  test::TestFolder folder_;
  TestVariable variable_{"HF_HUB_CACHE", folder_.path().string()};
};

TEST(Locate, NamesOfTheHubsCacheAndFolders) {
  const Cache cache("clip-gelu");
  EXPECT_EQ(find_checkpoint("owner/tiny").value(), cache.snapshot());
  EXPECT_EQ(find_checkpoint("owner/tiny@" + std::string(kCommit)).value(), cache.snapshot());
  EXPECT_EQ(find_checkpoint(golden("clip-gelu").string()).value(), golden("clip-gelu"));
  EXPECT_EQ(find_checkpoint("neither a folder nor a name").value(), "neither a folder nor a name");
  EXPECT_EQ(checkpoint_name(cache.snapshot()), "owner/tiny");
  EXPECT_EQ(checkpoint_name(golden("clip-gelu")), "clip-gelu");

  const auto absent = find_checkpoint("owner/other");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find("saccade model pull owner/other"), std::string::npos);

  fs::remove(cache.snapshot() / "model.safetensors");
  const auto torn = find_checkpoint("owner/tiny");
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code, ErrorCode::kNotFound);
  EXPECT_NE(torn.error().message.find("saccade model pull owner/tiny"), std::string::npos);
}

// All trainings write RUN/model. The run folder's name tells them apart.
TEST(Locate, TheResultOfATrainingHasItsRunsName) {
  const test::TestFolder folder;
  fs::create_directories(folder / "runs/blue/model");
  (void)folder.write("runs/blue/run.json", R"({"kind": "train dual"})");
  for (const char* given :
       {"runs/blue/model", "runs/blue/model/", "runs/blue/model/.", "runs/blue/./model//"})
    EXPECT_EQ(checkpoint_name(folder / given), "blue") << given;
  const fs::path before = fs::current_path();
  fs::current_path(folder / "runs/blue");
  EXPECT_EQ(checkpoint_name("model"), "blue");
  EXPECT_EQ(checkpoint_name("model/"), "blue");
  EXPECT_EQ(checkpoint_name("."), "blue");
  fs::current_path(folder / "runs/blue/model");
  EXPECT_EQ(checkpoint_name("."), "blue");
  fs::current_path(before);

  EXPECT_EQ(checkpoint_name(folder / "runs/blue/best"), "best");
  fs::create_directories(folder / "runs/starter/model");
  (void)folder.write("runs/starter/run.json", R"({"kind": "train dual"})");
  EXPECT_EQ(checkpoint_name(folder / "runs/starter/model"), "model")
      << "taken for the one that comes with the program";
  for (const char* other : {R"({"kind": "retrieval"})", R"({"kind": 3})", "[]", "{"}) {
    (void)folder.write("runs/blue/run.json", other);
    EXPECT_EQ(checkpoint_name(folder / "runs/blue/model"), "model") << other;
  }
  fs::remove(folder / "runs/blue/run.json");
  EXPECT_EQ(checkpoint_name(folder / "runs/blue/model/"), "model");
}

TEST(Locate, TheCheckpointACollectionWasMadeWith) {
  const Cache cache("clip-gelu");
  const test::TestFolder gone;
  const std::string nowhere = (gone.path() / "moved").string();
  const fs::path there = golden("clip-gelu");
  EXPECT_EQ(checkpoint_of({"a", nowhere, "", 0}, "given").value(), "given");
  EXPECT_EQ(checkpoint_of({"a", there.string(), "", 0}, {}).value(), there);
  EXPECT_EQ(checkpoint_of({"owner/tiny", nowhere, "", 0}, {}).value(), cache.snapshot());
  const TestVariable starter("SACCADE_STARTER", there.string());
  const TestVariable editor("SACCADE_EDITOR", (gone.path() / "an editor").string());
  EXPECT_EQ(editor_checkpoint().value(), gone.path() / "an editor");
  const TestVariable composer("SACCADE_COMPOSER", (gone.path() / "a composer").string());
  EXPECT_EQ(find_composer("starter").value(), gone.path() / "a composer");
  EXPECT_EQ(find_composer(there.string()).value(), there);
  EXPECT_EQ(find_composer("nowhere").value(), "nowhere");
  EXPECT_EQ(checkpoint_of({"starter", nowhere, "", 0}, {}).value(), there);
  const auto lost = checkpoint_of({"mine", nowhere, "", 0}, {});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kNotFound);
  EXPECT_NE(lost.error().message.find(nowhere), std::string::npos);
  const auto lost_of_hub = checkpoint_of({"owner/other", nowhere, "", 0}, {});
  ASSERT_FALSE(lost_of_hub);
  for (const std::string& part : {nowhere, std::string("saccade model pull owner/other"), std::string("-m")})
    EXPECT_NE(lost_of_hub.error().message.find(part), std::string::npos) << lost_of_hub.error().message;
}

TEST(Locate, ALoadedCheckpointKnowsWhatItIs) {
  const Cache cache("clip-gelu");
  const auto loaded = load_checkpoint("owner/tiny");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->id.name, "owner/tiny");
  EXPECT_EQ(loaded->id.path, cache.snapshot());
  EXPECT_EQ(loaded->id.fingerprint, checkpoint_fingerprint(golden("clip-gelu")).value());
  EXPECT_EQ(loaded->id.dim, loaded->encoder->info().dim);
  EXPECT_GT(loaded->id.dim, 0);
}

// The goldens have no preprocessor_config.json.
TEST(Locate, GuessedPreprocessingIsSaid) {
  const Cache cache("clip-gelu");
  const auto said_of = [](const std::string& named) {
    const auto loaded = load_checkpoint(named);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? guessed_preprocessing_warning(*loaded).value_or("") : "";
  };
  EXPECT_NE(said_of("owner/tiny").find("saccade model pull owner/tiny"), std::string::npos);
  EXPECT_EQ(said_of(golden("clip-gelu").string()), "");
  test::write_text(cache.snapshot() / "preprocessor_config.json", R"({"size": 64, "crop_size": 64})");
  EXPECT_EQ(said_of("owner/tiny"), "");
  // transformers 5's file may also have no image settings.
  const fs::path processor = cache.snapshot() / "processor_config.json";
  fs::remove(cache.snapshot() / "preprocessor_config.json");
  test::write_text(processor, R"({"processor_class": "CLIPProcessor"})");
  EXPECT_NE(said_of("owner/tiny"), "");
  test::write_text(processor, R"({"image_processor": {"size": 64, "crop_size": 64}})");
  EXPECT_EQ(said_of("owner/tiny"), "");
}

// OpenCLIP's and OpenAI's programs define the values that their layouts omit.
TEST(Locate, EncodersKnowWhetherPreprocessingIsGuessed) {
  for (const auto& [name, guessed] :
       {std::pair("clip-gelu", true), std::pair("siglip", true), std::pair("open_clip-gelu", false),
        std::pair("open_clip-siglip", false), std::pair("clip-resnet-openai", false)}) {
    const auto encoder = load_encoder(golden(name));
    ASSERT_TRUE(encoder) << encoder.error().message;
    EXPECT_EQ((*encoder)->info().preprocessing_guessed, guessed) << name;
  }
}

TEST(Locate, SeparateSpacesAreSaid) {
  const auto frozen = load_checkpoint(golden("blip2-t5").string());
  ASSERT_TRUE(frozen) << frozen.error().message;
  const std::string said = separate_spaces_warning(*frozen).value_or("");
  EXPECT_NE(said.find("checkpoint blip2-t5"), std::string::npos) << said;
  EXPECT_NE(said.find("is chance"), std::string::npos) << said;
  const auto shared = load_checkpoint(golden("clip-gelu").string());
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_FALSE(separate_spaces_warning(*shared));
}

}  // namespace
}  // namespace saccade
