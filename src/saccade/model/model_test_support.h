// Shared helpers of the families' tests: goldens, and damaged copies of them.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/model/conform/conform.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::test {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(test::kSourceDir) / "tests/golden" / name;
}

// Checks that a golden checkpoint reproduces its reference's outputs, that there are `answers` of them, and
// that no name is unknown.
inline void expect_conforms_in_fp32(const std::string& name, size_t answers) {
  const auto report = conform(golden(name));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->answers.size(), answers);
  EXPECT_TRUE(report->unknown.empty());
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.max_abs <= 1e-4) << check.name << " " << check.max_abs;
    EXPECT_TRUE(check.ok) << check.name;
  }
  EXPECT_TRUE(report->ok);
}

// Checks the same in bf16, by the rows' direction and length.
inline void expect_conforms_in_bf16(const std::string& name) {
  ConformOptions options;
  options.encoder.precision = Precision::kBf16;
  const auto report = conform(golden(name), options);
  ASSERT_TRUE(report) << report.error().message;
  for (const AnswerCheck& check : report->answers) {
    EXPECT_TRUE(check.ok) << check.name << " " << check.max_abs;
    if (check.name.starts_with("logits")) continue;  // a few nearly equal numbers a row, judged one by one
    EXPECT_TRUE(check.cosine > 0.999) << check.name << " " << check.cosine;
    EXPECT_TRUE(std::abs(check.norm_ratio - 1) < 0.01) << check.name << " " << check.norm_ratio;
  }
  EXPECT_TRUE(report->ok);
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline Json read(const fs::path& path) {
  return read_json(path).value();
}

inline Status save(const fs::path& path, const nn::TensorMap& tensors) {
  std::vector<nn::Tensor> kept;
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.contiguous().clone());
    named.push_back({name, nn::view_of(kept.back())});
  }
  return write_safetensors(path, named);
}

inline void edit_json(const fs::path& path, const std::function<void(Json&)>& change) {
  Json json = read(path);
  change(json);
  write_text(path, dump_json(json));
}

// Edits tensors in a new file and renames it over the old one, so that borrowed memory of the old one stays
// valid.
inline void edit_tensors(const fs::path& path, const std::function<void(nn::TensorMap&)>& change) {
  const auto file = SafeTensors::open(path);
  ASSERT_TRUE(file) << file.error().message;
  nn::TensorMap tensors = nn::borrow_tensors(*file).value();
  change(tensors);
  const fs::path changed = path.parent_path() / "changed.safetensors";
  const Status saved = save(changed, tensors);
  ASSERT_TRUE(saved) << saved.error().message;
  fs::rename(changed, path);
}

inline void edit_config(const fs::path& folder, const std::function<void(Json&)>& change) {
  edit_json(folder / "config.json", change);
}

inline void edit_weights(const fs::path& folder, const std::function<void(nn::TensorMap&)>& change) {
  edit_tensors(folder / "model.safetensors", change);
}

// Copy of a golden checkpoint in a temporary folder, removed with its owner.
class GoldenCopy {
 public:
  explicit GoldenCopy(const std::string& name) : path_(folder_ / name) {
    fs::copy(golden(name), path_, fs::copy_options::recursive);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

  void write(const std::string& name, const std::string& text) const { write_text(path_ / name, text); }
  void edit_json(const std::string& name, const std::function<void(Json&)>& change) const {
    test::edit_json(path_ / name, change);
  }
  void edit_tensors(const std::string& name, const std::function<void(nn::TensorMap&)>& change) const {
    test::edit_tensors(path_ / name, change);
  }

 private:
  TestFolder folder_;
  fs::path path_;
};

// Adds BERT's golden tokenizer, and word embeddings for it, to a copy of blip2-itm.
inline void add_blip2_tokenizer(const fs::path& folder) {
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "vocab.txt"}) {
    fs::copy(golden("tokenizers") / "bert" / file, folder / file);
  }
  edit_config(folder, [](Json& c) { c["qformer_config"]["vocab_size"] = 389; });
  edit_weights(folder, [](nn::TensorMap& t) {
    t["embeddings.word_embeddings.weight"] = random_tensor({389, 48}, 3);
  });
}

// Draws weights for the Q-Former and the projections of a copy of blip2-itm: large enough that every part has
// an effect on the embeddings.
inline void draw_blip2_weights(const fs::path& folder) {
  edit_weights(folder, [](nn::TensorMap& tensors) {
    uint32_t seed = 1;
    for (auto& [name, tensor] : tensors) {
      const bool drawn = name.starts_with("qformer.") || name.starts_with("embeddings.") ||
                         name.starts_with("text_projection.") || name.starts_with("vision_projection.") ||
                         name == "query_tokens";
      if (!drawn) continue;
      const bool gain = name.ends_with("LayerNorm.weight") || name.ends_with("layernorm.weight");
      const nn::Tensor values = random_tensor(tensor.sizes(), seed++, gain ? 0.1F : 0.2F);
      for (float& value : values.floats()) value += gain ? 1.0F : 0.0F;
      tensor = values;
    }
  });
}

// Damage to a checkpoint, with the expected error message.
struct Damage {
  const char* name;
  std::function<void(const fs::path&)> apply;
  const char* expected;  // part of the message
};

// Checks each damage on a copy of its own, after `prepare`.
inline void expect_refused(const std::string& golden_name, const std::vector<Damage>& damages,
                           const std::function<void(const GoldenCopy&)>& prepare = {}) {
  for (const Damage& damage : damages) {
    const GoldenCopy copy(golden_name);
    if (prepare) prepare(copy);
    damage.apply(copy.path());
    const auto encoder = load_encoder(copy.path());
    ASSERT_FALSE(encoder) << damage.name;
    EXPECT_NE(encoder.error().message.find(damage.expected), std::string::npos)
        << damage.name << ": " << encoder.error().message;
    EXPECT_EQ(encoder.error().message.find('\n'), std::string::npos) << damage.name;
  }
}

}  // namespace saccade::test
