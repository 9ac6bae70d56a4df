// Copies of golden checkpoints for tests to damage.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "saccade/core/json.h"
#include "saccade/core/safetensors.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/torch.h"

namespace saccade::test {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(SACCADE_SOURCE_DIR) / "tests/golden" / name;
}

// A golden checkpoint's copy in a folder of its own, gone afterwards.
class GoldenCopy {
 public:
  explicit GoldenCopy(const std::string& name) {
    std::string folder = (fs::temp_directory_path() / "saccade-XXXXXX").string();
    root_ = mkdtemp(folder.data());
    fs::copy(golden(name), path(), fs::copy_options::recursive);
  }
  GoldenCopy(const GoldenCopy&) = delete;
  GoldenCopy& operator=(const GoldenCopy&) = delete;
  ~GoldenCopy() { fs::remove_all(root_); }
  [[nodiscard]] fs::path path() const { return root_ / "checkpoint"; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary | std::ios::trunc) << text;
  }
  void edit_json(const std::string& name, const std::function<void(Json&)>& change) const {
    Json json = read_json(path() / name).value();
    change(json);
    write(name, dump_json(json));
  }
  void edit_tensors(const std::string& name, const std::function<void(nn::TensorMap&)>& change) const {
    const auto file = SafeTensors::open(path() / name);
    ASSERT_TRUE(file) << file.error().message;
    nn::TensorMap tensors = nn::borrow_tensors(*file);
    change(tensors);
    std::vector<torch::Tensor> kept;
    std::vector<NamedTensor> named;
    for (const auto& [tensor_name, tensor] : tensors) {
      kept.push_back(tensor.contiguous().clone());
      named.push_back({tensor_name, nn::view_of(kept.back())});
    }
    const auto written = write_safetensors(path() / "changed.safetensors", named);
    ASSERT_TRUE(written) << written.error().message;
    fs::rename(path() / "changed.safetensors", path() / name);
  }

 private:
  fs::path root_;
};

}  // namespace saccade::test
