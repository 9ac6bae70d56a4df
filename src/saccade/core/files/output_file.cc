#include "saccade/core/files/output_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/links.h"
#include "saccade/core/json.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeadBytes = size_t{1} << 20;  // the first line of a manifest may be long

// `head` behind a byte order mark and white space.
std::string_view behind_space(std::string_view head) {
  return trim_ascii(without_byte_order_mark(head), " \t\r\n");
}

bool begins_html(std::string_view head) {
  const std::string_view text = behind_space(head);
  return starts_in_any_case(text, "<!doctype html") || starts_in_any_case(text, "<html");
}

bool begins_json(std::string_view head) {
  return behind_space(head).starts_with('{');
}

bool begins_json_lines(std::string_view head) {
  const std::string_view text = behind_space(head);
  const auto line = parse_json(text.substr(0, text.find('\n')));
  return line.has_value() && line->is_object();
}

bool begins_safetensors(std::string_view head) {
  uint64_t header = 0;
  if (head.size() <= sizeof header) return false;
  std::memcpy(&header, head.data(), sizeof header);
  return head[sizeof header] == '{' && header < (uint64_t{1} << 32);
}

// Vectors name the checkpoint that made them first of all.
bool begins_vectors(std::string_view head) {
  constexpr std::string_view kStart = R"({"__metadata__":{"checkpoint":)";
  return begins_safetensors(head) && head.substr(sizeof(uint64_t)).starts_with(kStart);
}

struct Kind {
  std::string_view name;  // for messages
  std::array<std::string_view, 2> endings;
  bool (*begins)(std::string_view head);
};

const Kind& kind_of(OutputKind kind) {
  static constexpr std::array<Kind, 7> kKinds = {{
      {"an HTML page", {".html", ".htm"}, begins_html},
      {"a JSON object", {".json", ".json"}, begins_json},
      {"JSON Lines", {".jsonl", ".ndjson"}, begins_json_lines},
      {"a NumPy array",
       {".npy", ".npy"},
       [](std::string_view head) { return head.starts_with("\x93NUMPY"); }},
      {"vectors in safetensors", {".safetensors", ".safetensors"}, begins_vectors},
      {"a shell script", {".sh", ".sh"}, [](std::string_view head) { return head.starts_with("#!/bin/sh"); }},
      {"a document", {".md", ".html"}, [](std::string_view) { return false; }},
  }};
  return kKinds[static_cast<size_t>(kind)];
}

// Returns the kind of a file by its first bytes, for messages; empty for an unknown one.
std::string_view known_content(std::string_view head) {
  using namespace std::string_view_literals;
  struct Magic {
    size_t at;
    std::string_view bytes;
    std::string_view name;
  };
  static constexpr std::array kMagics = {
      Magic{0, "\xFF\xD8\xFF"sv, "an image"},
      Magic{0, "\x89PNG"sv, "an image"},
      Magic{0, "GIF8"sv, "an image"},
      Magic{8, "WEBP"sv, "an image"},
      Magic{0, "II*\0"sv, "an image"},
      Magic{0, "MM\0*"sv, "an image"},
      Magic{4, "ftyp"sv, "an image or a video"},
      Magic{0, "SQLite format 3\0"sv, "a database"},
      Magic{257, "ustar"sv, "an archive"},
      Magic{0, "PK\x03\x04"sv, "an archive"},
      Magic{0, "\x1F\x8B"sv, "an archive"},
      Magic{0, "PAR1"sv, "a Parquet file"},
      Magic{0, "%PDF"sv, "a PDF"},
      Magic{0, "\x93NUMPY"sv, "a NumPy array"},
  };
  for (const Magic& magic : kMagics) {
    if (head.size() > magic.at && head.substr(magic.at).starts_with(magic.bytes)) return magic.name;
  }
  if (begins_html(head)) return "an HTML page";
  if (begins_safetensors(head)) return "other safetensors";
  return {};
}

Result<std::string> read_head(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return fail_errno(errno, path.string());
  std::string head(kHeadBytes, '\0');
  size_t filled = 0;
  while (filled < head.size()) {
    const ssize_t got = ::read(file.get(), head.data() + filled, head.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, path.string() + ": read");
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  head.resize(filled);
  return head;
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Returns true if `path`, which need not exist, is `folder` or lies below it, by whatever names.
bool is_below(const fs::path& path, const struct stat& folder) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  for (; !error && !place.empty(); place = place.parent_path()) {
    struct stat info {};
    if (::stat(place.c_str(), &info) == 0 && is_same(info, folder)) return true;
    if (place == place.root_path()) break;
  }
  return false;
}

// Returns true if the file lies below the folder by its own name, or by what that leads to.
bool lies_in(const fs::path& path, const fs::path& end, const struct stat& folder) {
  std::error_code error;
  return is_below(fs::absolute(path, error).parent_path(), folder) || is_below(end, folder);
}

Status check_closed(const fs::path& path, const fs::path& end, const OutputRules& rules) {
  for (const fs::path& closed : rules.closed) {
    struct stat folder {};
    if (closed.empty() || ::stat(closed.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode)) continue;
    if (!lies_in(path, end, folder)) continue;
    return fail(ErrorCode::kUsage,
                "{} lies in {}, whose files belong together: nothing is written there, name another place",
                path.string(), closed.string());
  }
  return {};
}

// `there`: the file that exists at the path, or nullptr.
Status check_inputs(const fs::path& path, const fs::path& end, const struct stat* there, OutputKind kind,
                    const OutputRules& rules) {
  for (const fs::path& input : rules.inputs) {
    struct stat info {};
    if (input.empty() || ::stat(input.c_str(), &info) != 0) continue;
    if (there != nullptr && is_same(*there, info)) {
      return fail(ErrorCode::kUsage,
                  "{} is what this command reads: name another file, or replace it with --overwrite",
                  path.string());
    }
    if (!S_ISDIR(info.st_mode) || !lies_in(path, end, info)) continue;
    if (there != nullptr) {
      return fail(
          ErrorCode::kUsage,
          "{} is there already and lies in {}, which this command reads: name another file, or replace it with "
          "--overwrite",
          path.string(), input.string());
    }
    const auto& endings = kind_of(kind).endings;
    if (std::ranges::find(endings, end.extension().string()) == endings.end()) {
      return fail(
          ErrorCode::kUsage,
          "{} would be a part of {}, which this command reads: name a file elsewhere, or one that ends in {}",
          path.string(), input.string(), endings.front());
    }
  }
  return {};
}

Status check_kind(const fs::path& path, OutputKind kind) {
  SACCADE_ASSIGN(const std::string head, read_head(path));
  const Kind& wanted = kind_of(kind);
  if (head.empty() || wanted.begins(head)) return {};
  const std::string_view known = known_content(head);
  std::string found = "is there already";
  if (kind != OutputKind::kDocument) {
    found += known.empty() ? fmt::format(" and is not {}", wanted.name)
                           : fmt::format(" and is {}, not {}", known, wanted.name);
  }
  return fail(ErrorCode::kUsage, "{} {}: name another file, or replace it with --overwrite", path.string(),
              found);
}

// The file that an output replaces, kept until the output and another one are both in place.
class Kept {
 public:
  // Keeps nothing if `path` is not there or no regular file.
  static Result<Kept> keep(const fs::path& path) {
    Kept kept;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      kept.missing_ = true;
    } else if (S_ISREG(info.st_mode)) {
      SACCADE_TRY(kept.link_beside(path));
    }
    kept.path_ = path;
    return kept;
  }
  Kept(Kept&& other) noexcept
      : path_(std::move(other.path_)),
        beside_(std::exchange(other.beside_, {})),
        missing_(std::exchange(other.missing_, false)) {}
  Kept& operator=(Kept&&) = delete;
  ~Kept() {
    if (!beside_.empty()) ::unlink(beside_.c_str());
  }

  void restore() {
    if (missing_) ::unlink(path_.c_str());
    if (!beside_.empty() && ::rename(beside_.c_str(), path_.c_str()) == 0) beside_.clear();
  }

 private:
  Kept() = default;
  // A second name for the file, as temporary_of() knows them; a copy where the file system has no hard links.
  Status link_beside(const fs::path& path) {
    static std::atomic<uint64_t> serial = 0;
    constexpr int kTries = 1000;
    for (int tries = 0; tries < kTries; ++tries) {
      fs::path name = fmt::format("{}.tmp-{}-{}", path.string(), ::getpid(), serial++);
      if (::link(path.c_str(), name.c_str()) != 0) {
        if (errno == EEXIST) continue;
        std::error_code error;
        if (!fs::copy_file(path, name, error)) {
          if (error == std::errc::file_exists) continue;
          return fail_errno(error.value(), path.string() + ": keep a copy");
        }
      }
      beside_ = std::move(name);
      return {};
    }
    return fail_errno(EEXIST, path.string() + ": keep a copy");
  }

  fs::path path_;
  fs::path beside_;
  bool missing_ = false;
};

}  // namespace

Status check_output(const fs::path& path, OutputKind kind, const OutputRules& rules) {
  if (path == "-") {
    return fail(ErrorCode::kUsage,
                "-: no name for an output; /dev/stdout is standard output, ./- a file of this name");
  }
  SACCADE_ASSIGN(const fs::path end, end_of_links(path));
  if (own_descriptor(end) >= 0) return {};
  struct stat info {};
  const bool exists = ::stat(end.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return fail(ErrorCode::kBadData, "{}: a folder, not a file", path.string());
  }
  if (exists && !S_ISREG(info.st_mode)) return {};
  std::error_code error;
  const fs::path folder = fs::absolute(end, error).parent_path();
  if (!exists && !fs::is_directory(folder, error)) {
    return fail(ErrorCode::kNotFound, "{}: no folder {}", path.string(), folder.string());
  }
  SACCADE_TRY(check_closed(path, end, rules));
  if (rules.overwrite) return {};
  SACCADE_TRY(check_inputs(path, end, exists ? &info : nullptr, kind, rules));
  return exists ? check_kind(path, kind) : Status();
}

Status check_output_folder(const fs::path& folder, const OutputRules& rules) {
  return check_closed(folder, folder, rules);
}

Result<OutputFile> OutputFile::open(const fs::path& path, OutputKind kind, const OutputRules& rules) {
  SACCADE_TRY(check_output(path, kind, rules));
  SACCADE_ASSIGN(fs::path end, end_of_links(path));
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  return OutputFile(std::move(end), std::move(file));
}

Status commit_both(OutputFile& first, OutputFile& second) {
  SACCADE_ASSIGN(Kept before, Kept::keep(first.end_));
  SACCADE_TRY(first.commit());
  Status committed = second.commit();
  if (!committed) before.restore();
  return committed;
}

Status write_output(const fs::path& path, OutputKind kind, const OutputRules& rules,
                    std::string_view content) {
  SACCADE_ASSIGN(OutputFile output, OutputFile::open(path, kind, rules));
  SACCADE_TRY(output.file().write(content));
  return output.commit();
}

}  // namespace saccade
