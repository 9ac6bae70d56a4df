#include "lab/eval/run/run.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "saccade/core/ascii.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetricsFile = "metrics.json";
constexpr size_t kBufferBytes = size_t{1} << 20;

Json image_json(const ImageRef& image) {
  std::error_code error;
  const fs::path absolute = fs::absolute(image.path, error);
  Json json = {{"path", error ? image.path.string() : absolute.lexically_normal().string()}};
  if (image.in_archive()) {
    json["member"] = image.member;
    json["offset"] = image.offset;
    json["size"] = image.size;
    if (!image.column.empty()) json["column"] = image.column;
  }
  return json;
}

Result<ImageRef> parse_image(const Json& json) {
  ImageRef image;
  SACCADE_ASSIGN(image.path, json_field<std::string>(json, "path"));
  SACCADE_ASSIGN(image.member, json_field_or<std::string>(json, "member", ""));
  SACCADE_ASSIGN(image.offset, json_field_or<int64_t>(json, "offset", 0));
  SACCADE_ASSIGN(image.size, json_field_or<int64_t>(json, "size", 0));
  SACCADE_ASSIGN(image.column, json_field_or<std::string>(json, "column", ""));
  return image;
}

// Returns a part of a file name: letters, digits, '-', '_' and '.'.
std::string file_part(std::string_view text) {
  std::string part;
  for (const char c : text) {
    const bool plain = is_ascii_alphanumeric(c) || c == '-' || c == '_' || (c == '.' && !part.empty());
    part += plain ? c : '_';
  }
  return part.substr(0, 80);
}

}  // namespace

// A file of lines that is being written.
struct RunWriter::Lines {
  std::string name;
  std::optional<AtomicFile> file;
  std::string buffer;
  Sha256 hash;
  int64_t bytes = 0;

  Status flush() {
    hash.update(buffer);
    bytes += static_cast<int64_t>(buffer.size());
    SACCADE_TRY(file->write(buffer));
    buffer.clear();
    return {};
  }
};

Result<RunWriter> RunWriter::open(const fs::path& folder, const RunInfo& info, bool overwrite) {
  SACCADE_ASSIGN(RunFolder claimed, RunFolder::claim(folder));
  RunWriter writer(std::move(claimed));
  writer.overwrite_ = overwrite;
  if (!writer.folder_.finished()) return writer;
  SACCADE_ASSIGN(writer.there_, parse_run_info(*writer.folder_.finished()));
  SACCADE_TRY(writer.check_inputs(info));
  return writer;
}

Status RunWriter::check_inputs(const RunInfo& info) const {
  if (!folder_.finished() || overwrite_) return {};
  const std::vector<std::string> differences = run_differences(there_, info);
  if (differences.empty()) return {};
  return fail(
      ErrorCode::kMismatch,
      "{} holds a finished run of other inputs: {}{}; --overwrite replaces it, or name another folder",
      folder_.path().string(), differences.front(),
      differences.size() == 1 ? "" : fmt::format(" (and {} more)", differences.size() - 1));
}

Status RunWriter::add_line(const std::string& name, const Json& line) {
  auto& lines = lines_[name];
  if (lines == nullptr) {
    SACCADE_ASSIGN(const fs::path path, folder_.stage(name));
    SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
    lines = std::make_shared<Lines>();
    lines->name = name;
    lines->file.emplace(std::move(file));
  }
  lines->buffer += dump_json(line);
  lines->buffer += '\n';
  return lines->buffer.size() < kBufferBytes ? Status() : lines->flush();
}

Status RunWriter::add_items(const std::string& dataset, const RunItems& items) {
  for (size_t i = 0; i < items.images.size(); ++i) {
    Json line = {{"dataset", dataset}, {"image", i}, {"id", items.images[i].id}};
    line.update(image_json(items.images[i].image));
    SACCADE_TRY(add_line("items.jsonl", line));
  }
  for (size_t i = 0; i < items.texts.size(); ++i) {
    SACCADE_TRY(add_line("items.jsonl", {{"dataset", dataset},
                                         {"text", i},
                                         {"caption", items.texts[i].text},
                                         {"images", items.texts[i].images}}));
  }
  for (size_t i = 0; i < items.compositions.size(); ++i) {
    const CompositionItem& item = items.compositions[i];
    Json images = Json::array();
    for (const ImageRef& image : item.images) images.push_back(image_json(image));
    SACCADE_TRY(add_line("items.jsonl", {{"dataset", dataset},
                                         {"composition", i},
                                         {"id", item.id},
                                         {"kind", item.kind},
                                         {"captions", item.captions},
                                         {"images", std::move(images)}}));
  }
  return {};
}

Status RunWriter::add_embeddings(const std::string& dataset, const std::string& model,
                                 MatrixView<const float> images, MatrixView<const float> texts,
                                 std::span<const int64_t> text_image,
                                 const std::map<std::string, std::string>& metadata) {
  std::string name = fmt::format("embeddings/{}--{}.safetensors", file_part(dataset), file_part(model));
  for (int n = 2; std::ranges::any_of(files_, [&](const File& file) { return file.name == name; }); ++n) {
    name = fmt::format("embeddings/{}--{}-{}.safetensors", file_part(dataset), file_part(model), n);
  }
  const auto bytes_of = [](MatrixView<const float> rows) {
    return std::as_bytes(std::span(rows.data(), static_cast<size_t>(rows.rows() * rows.columns())));
  };
  const std::vector<NamedTensor> tensors = {
      {"image_embeds", {DType::kF32, {images.rows(), images.columns()}, bytes_of(images)}},
      {"text_embeds", {DType::kF32, {texts.rows(), texts.columns()}, bytes_of(texts)}},
      {"text_image", {DType::kI64, {static_cast<int64_t>(text_image.size())}, std::as_bytes(text_image)}}};
  SACCADE_ASSIGN(const fs::path path, folder_.stage(name));
  SACCADE_TRY(write_safetensors(path, tensors, metadata));
  File file{name, 0, {}};
  SACCADE_ASSIGN(file.sha256, sha256_file(path));
  std::error_code error;
  file.bytes = static_cast<int64_t>(fs::file_size(path, error));
  files_.push_back(std::move(file));
  embeddings_.push_back({dataset, model, std::move(name)});
  return {};
}

// Stages everything except run.json.
Status RunWriter::write_all_files(const Json& metrics) {
  for (const auto& [name, lines] : lines_) {
    SACCADE_TRY(lines->flush());
    SACCADE_TRY(lines->file->commit());
    files_.push_back({name, lines->bytes, lines->hash.hex()});
  }
  const std::string content = dump_json(metrics, 1) + "\n";
  SACCADE_ASSIGN(const fs::path path, folder_.stage(kMetricsFile));
  SACCADE_TRY(write_file_atomic(path, content));
  files_.push_back({kMetricsFile, static_cast<int64_t>(content.size()), sha256_hex(content)});
  return {};
}

Status RunWriter::finish(const RunInfo& info, const Json& metrics) {
  SACCADE_TRY(check_inputs(info));
  SACCADE_TRY(write_all_files(metrics));
  Json files = Json::array();
  std::vector<std::string> names;
  for (const File& file : files_) {
    names.push_back(file.name);
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  Json embeddings = Json::array();
  for (const RunEmbeddings& one : embeddings_) {
    embeddings.push_back({{"dataset", one.dataset}, {"model", one.model}, {"file", one.file}});
  }
  Json json = run_json(info);
  json["embeddings"] = std::move(embeddings);
  json["files"] = std::move(files);
  return folder_.publish(names, dump_json(json, 1) + "\n");
}

Result<Run> read_run(const fs::path& folder) {
  const fs::path path = folder / kRunFile;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::kNotFound, "run {}: no such folder", folder.string());
  }
  if (!fs::exists(path, error)) {
    return fail(ErrorCode::kNotFound, "run {}: no run.json: not a run, or one that was cut off",
                folder.string());
  }
  SACCADE_ASSIGN(const Json json, read_json(path));
  Run run;
  run.folder = folder;
  SACCADE_ASSIGN(run.info, parse_run_info(json).in(path.string()));
  SACCADE_ASSIGN(const auto files, parse_run_files(json).in(path.string()));
  for (const auto& [name, hash] : files) {
    run.files[name] = hash;
    if (!fs::is_regular_file(folder / name, error)) {
      return fail(ErrorCode::kBadData, "run {}: {} is missing", folder.string(), name);
    }
  }
  if (!run.files.contains(kMetricsFile)) {
    return fail(ErrorCode::kBadData, "{}: \"files\" does not name metrics.json", path.string());
  }
  SACCADE_ASSIGN(const std::string metrics, read_file(folder / kMetricsFile));
  if (sha256_hex(metrics) != run.files[kMetricsFile]) {
    return fail(ErrorCode::kBadData, "run {}: metrics.json is not as it was written (its hash differs)",
                folder.string());
  }
  SACCADE_ASSIGN(run.metrics, parse_json(metrics).in((folder / kMetricsFile).string()));
  const auto embeddings = json.find("embeddings");
  if (embeddings == json.end() || !embeddings->is_array()) {
    return fail(ErrorCode::kBadData, "{}: \"embeddings\" is missing or no array", path.string());
  }
  for (const Json& one : *embeddings) {
    RunEmbeddings& entry = run.embeddings.emplace_back();
    const std::string where = path.string() + ": \"embeddings\"";
    SACCADE_ASSIGN(entry.dataset, json_field<std::string>(one, "dataset").in(where));
    SACCADE_ASSIGN(entry.model, json_field<std::string>(one, "model").in(where));
    SACCADE_ASSIGN(entry.file, json_field<std::string>(one, "file").in(where));
    if (fs::path(entry.file).is_relative()) entry.file = (folder / entry.file).string();
  }
  return run;
}

Status read_run_lines(const Run& run, const std::string& name,
                      const std::function<Status(const Json&)>& line) {
  const fs::path path = run.folder / name;
  const auto known = run.files.find(name);
  if (known == run.files.end()) {
    return fail(ErrorCode::kNotFound, "run {} has no {}", run.folder.string(), name);
  }
  SACCADE_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (sha256_hex(file.bytes()) != known->second) {
    return fail(ErrorCode::kBadData, "{}: not as it was written (its hash differs)", path.string());
  }
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  int64_t number = 0;
  for (const std::string_view each : Lines(text)) {
    const std::string where = fmt::format("{}: line {}", path.string(), ++number);
    SACCADE_ASSIGN(const Json json, parse_json(each).in(where));
    SACCADE_TRY(line(json).in(where));
  }
  return {};
}

Result<std::map<std::string, RunItems>> read_run_items(const Run& run) {
  std::map<std::string, RunItems> all;
  const auto next = [](const Json& json, const char* key, size_t have) -> Status {
    SACCADE_ASSIGN(const int64_t number, json_field<int64_t>(json, key));
    if (number == static_cast<int64_t>(have)) return {};
    return fail(ErrorCode::kBadData, "\"{}\" is {}, expected {}", key, number, have);
  };
  const auto read_line = [&](const Json& json) -> Status {
    SACCADE_ASSIGN(const std::string dataset, json_field<std::string>(json, "dataset"));
    RunItems& items = all[dataset];
    if (json.contains("image")) {
      SACCADE_TRY(next(json, "image", items.images.size()));
      RunImage& image = items.images.emplace_back();
      SACCADE_ASSIGN(image.id, json_field<std::string>(json, "id"));
      SACCADE_ASSIGN(image.image, parse_image(json));
    } else if (json.contains("text")) {
      SACCADE_TRY(next(json, "text", items.texts.size()));
      RunText& text = items.texts.emplace_back();
      SACCADE_ASSIGN(text.text, json_field<std::string>(json, "caption"));
      for (const Json& image : json.value("images", Json::array())) {
        SACCADE_ASSIGN(text.images.emplace_back(), detail::json_as<int64_t>("images", image));
        if (text.images.back() < 0 || text.images.back() >= static_cast<int64_t>(items.images.size())) {
          return fail(ErrorCode::kBadData, "\"images\" names image {}, there are {}", text.images.back(),
                      items.images.size());
        }
      }
    } else {
      SACCADE_TRY(next(json, "composition", items.compositions.size()));
      CompositionItem& item = items.compositions.emplace_back();
      SACCADE_ASSIGN(item.id, json_field<std::string>(json, "id"));
      SACCADE_ASSIGN(item.kind, json_field<std::string>(json, "kind"));
      for (const Json& caption : json.value("captions", Json::array())) {
        SACCADE_ASSIGN(item.captions.emplace_back(), detail::json_as<std::string>("captions", caption));
      }
      for (const Json& image : json.value("images", Json::array())) {
        SACCADE_ASSIGN(item.images.emplace_back(), parse_image(image));
      }
    }
    return {};
  };
  SACCADE_TRY(read_run_lines(run, "items.jsonl", read_line));
  return all;
}

}  // namespace saccade::lab
