// What the tests of the families share: goldens, folders of their own, ways to damage a checkpoint.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/core/json.h"
#include "saccade/core/safetensors.h"
#include "saccade/model/conform.h"
#include "saccade/model/encoder.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade::testing_support {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(SACCADE_SOURCE_DIR) / "tests/golden" / name;
}

// A folder of its own, gone afterwards.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "saccade-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline fs::path copy_golden(const ScratchFolder& scratch, const std::string& name) {
  const fs::path to = scratch.path() / name;
  fs::copy(golden(name), to, fs::copy_options::recursive);
  return to;
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline Json read(const fs::path& path) {
  return read_json(path).value();
}

inline Status save(const fs::path& path, const nn::TensorMap& tensors) {
  std::vector<torch::Tensor> kept;
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) {
    kept.push_back(tensor.contiguous().clone());
    named.push_back({name, nn::view_of(kept.back())});
  }
  return write_safetensors(path, named);
}

inline void edit_config(const fs::path& folder, const std::function<void(Json&)>& change) {
  Json config = read(folder / "config.json");
  change(config);
  write_text(folder / "config.json", dump_json(config));
}

inline void edit_weights(const fs::path& folder, const std::function<void(nn::TensorMap&)>& change) {
  const auto file = SafeTensors::open(folder / "model.safetensors");
  nn::TensorMap tensors = nn::borrow_tensors(*file);
  change(tensors);
  ASSERT_TRUE(save(folder / "changed.safetensors", tensors));
  fs::rename(folder / "changed.safetensors", folder / "model.safetensors");
}

// A way to spoil a checkpoint, and what the error must say.
struct Damage {
  const char* name;
  std::function<void(const fs::path&)> apply;
  const char* expected;  // part of the message
};

inline void expect_refused(const std::string& golden_name, const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    const ScratchFolder scratch;
    const fs::path folder = copy_golden(scratch, golden_name);
    damage.apply(folder);
    const auto encoder = load_encoder(folder);
    ASSERT_FALSE(encoder) << damage.name;
    EXPECT_NE(encoder.error().message.find(damage.expected), std::string::npos)
        << damage.name << ": " << encoder.error().message;
    EXPECT_EQ(encoder.error().message.find('\n'), std::string::npos) << damage.name;
  }
}

}  // namespace saccade::testing_support
