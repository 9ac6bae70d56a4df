#include "saccade/document/pdf.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/core/hash.h"
#include "saccade/core/process/limited_process.h"
#include "saccade/document/page_text.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// Entry of `pdfimages -list`.
struct Placed {
  int64_t page = 0;
  bool is_mask = false;  // soft mask of the preceding image
  bool is_picture = false;
  int64_t width = 0;
  int64_t height = 0;
  std::string object;  // object number; equal if an image occurs several times
};

std::vector<Placed> parse_list(std::string_view text) {
  std::vector<Placed> list;
  for (const std::string_view line : Lines(text)) {
    const std::vector<std::string_view> fields = split_ascii(line, " ");
    if (fields.size() < 11) continue;
    const auto page = number_in(fields[0]);
    const auto width = number_in(fields[3]);
    const auto height = number_in(fields[4]);
    if (!page || !width || !height) continue;  // its heading
    Placed& placed = list.emplace_back();
    placed.page = *page;
    placed.is_picture = fields[2] == "image";
    placed.is_mask = fields[2] == "smask";
    placed.width = *width;
    placed.height = *height;
    // Object number and generation ("12 0"). An inline image in a page's own stream, "[inline]", has no name
    // and is not shared.
    const bool has_name = number_in(fields[10]).has_value() && fields.size() > 11;
    placed.object = has_name ? fmt::format("{} {}", fields[10], fields[11])
                             : fmt::format("page {} line {}", *page, list.size());
  }
  return list;
}

// Composites an image over white, as on a page. A mask of another size is sampled at the nearest point.
Image over_white(const Image& picture, const Image& mask) {
  Image result{picture.width, picture.height, 3, PixelMode::kRgb, {}};
  const auto area = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  result.pixels.resize(3 * area);
  const auto channels = static_cast<size_t>(picture.channels);
  const auto mask_channels = static_cast<size_t>(mask.channels);
  for (int y = 0; y < picture.height; ++y) {
    const auto mask_y = static_cast<size_t>(int64_t{y} * mask.height / picture.height);
    for (int x = 0; x < picture.width; ++x) {
      const auto mask_x = static_cast<size_t>(int64_t{x} * mask.width / picture.width);
      const size_t at = static_cast<size_t>(y) * static_cast<size_t>(picture.width) + static_cast<size_t>(x);
      const int alpha = mask.pixels[(mask_y * static_cast<size_t>(mask.width) + mask_x) * mask_channels];
      for (size_t c = 0; c < 3; ++c) {
        const int value = picture.pixels[at * channels + (channels < 3 ? 0 : c)];
        result.pixels[3 * at + c] = static_cast<uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
      }
    }
  }
  return result;
}

}  // namespace

Result<PdfPrograms> PdfPrograms::find() {
  PdfPrograms programs;
  for (const auto& [path, name] :
       {std::pair{&programs.info_, "pdfinfo"}, std::pair{&programs.text_, "pdftotext"},
        std::pair{&programs.images_, "pdfimages"}}) {
    const std::optional<fs::path> found = find_program(name);
    if (!found) {
      return fail(ErrorCode::kNotFound, "PDFs are read by {}, which is not here: install poppler-utils",
                  name);
    }
    *path = *found;
  }
  return programs;
}

// Reader of one document.
class PdfReader {
 public:
  PdfReader(const PdfPrograms& programs, const fs::path& file, const PdfOptions& options,
            const std::stop_token& stop)
      : programs_(programs),
        file_(file),
        options_(options),
        stop_(stop),
        seconds_left_(options.max_seconds) {}

  Result<PdfDocument> read(bool with_pictures) {
    std::error_code error;
    file_ = fs::absolute(file_, error);  // no name that looks like an option
    const auto size = fs::file_size(file_, error);
    if (error) {
      return fail_errno(error.value(), "read");
    }
    if (size > static_cast<uintmax_t>(options_.max_bytes)) {
      return fail(ErrorCode::kLimit, "{} MiB, limit {}", size >> 20, options_.max_bytes >> 20);
    }
    SACCADE_TRY(read_text());
    if (with_pictures) SACCADE_TRY(read_pictures());
    return std::move(document_);
  }

 private:
  Result<ProcessOutcome> run(const fs::path& program, std::vector<std::string> arguments) {
    if (seconds_left_ <= 0) return out_of_time();
    auto outcome = run_limited(program, arguments,
                               {.seconds = seconds_left_, .memory_bytes = options_.max_memory}, stop_);
    if (outcome) seconds_left_ -= outcome->seconds;
    return outcome;
  }
  [[nodiscard]] tl::unexpected<Error> out_of_time() const {
    return fail(ErrorCode::kLimit, "not read within {:.0f} seconds", options_.max_seconds);
  }

  // Converts a program's message at a failure into an error.
  static tl::unexpected<Error> refused(std::string_view program, const ProcessOutcome& outcome) {
    const std::string_view said = outcome.errors;
    if (said.find("Incorrect password") != std::string_view::npos) {
      return fail(ErrorCode::kUnsupported, "encrypted: it asks for a password");
    }
    if (said.find("ut of memory") != std::string_view::npos ||
        said.find("bad_alloc") != std::string_view::npos) {
      return fail(ErrorCode::kLimit, "{} ran out of memory", program);
    }
    // The last of several lines states the reason.
    std::string last;
    for (const std::string_view line : Lines(said)) {
      if (!line.empty()) last = line.substr(0, 200);
    }
    for (char& c : last) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    return fail(ErrorCode::kBadData, "broken: {} ended with code {}{}{}", program, outcome.code,
                last.empty() ? "" : ": ", last);
  }

  Status read_text() {
    SACCADE_ASSIGN(const ProcessOutcome info, run(programs_.info_, {file_.string()}));
    if (info.code != 0) return refused("pdfinfo", info);
    std::optional<int64_t> pages;
    for (const std::string_view line : Lines(info.out)) {
      const std::vector<std::string_view> fields = split_ascii(line, " ");
      if (fields.size() == 2 && fields[0] == "Pages:") pages = number_in(fields[1]);
    }
    if (!pages || *pages == 0) return fail(ErrorCode::kBadData, "broken: it has no pages");
    pages_ = std::min<int64_t>(*pages, options_.max_pages);
    document_.pages_left_out = *pages - pages_;

    SACCADE_ASSIGN(const ProcessOutcome text,
                   run(programs_.text_,
                       {"-bbox-layout", "-enc", "UTF-8", "-l", std::to_string(pages_), file_.string(), "-"}));
    if (text.code != 0) return refused("pdftotext", text);
    SACCADE_ASSIGN(std::vector<document::TextPage> laid_out, document::parse_bbox_layout(text.out));
    if (std::ranges::all_of(laid_out, [](const document::TextPage& page) { return page.blocks.empty(); })) {
      return fail(ErrorCode::kUnsupported, "no text on {} pages: scanned, perhaps", pages_);
    }
    document_.edge_lines = document::drop_edge_lines(laid_out);
    document::order_blocks(laid_out);
    std::vector<std::vector<std::string>> paragraphs = document::join_paragraphs(laid_out);
    for (size_t i = 0; i < paragraphs.size(); ++i) {
      document_.pages.push_back({static_cast<int>(i) + 1, std::move(paragraphs[i]), {}});
    }
    return {};
  }

  // Extracts each image object of the file once, on the first page that shows it.
  Status read_pictures() {
    SACCADE_ASSIGN(const ProcessOutcome listed,
                   run(programs_.images_, {"-list", "-l", std::to_string(pages_), file_.string()}));
    if (listed.code != 0) return refused("pdfimages", listed);
    const std::vector<Placed> list = parse_list(listed.out);
    std::map<std::string, std::optional<size_t>> by_object;  // indices in document_.pictures, once tried
    std::map<std::string, size_t> by_hash;
    std::vector<std::set<size_t>> on_page(document_.pages.size());
    for (size_t begin = 0; begin < list.size();) {
      size_t end = begin;
      while (end < list.size() && list[end].page == list[begin].page) ++end;
      const std::span<const Placed> page(list.begin() + static_cast<ptrdiff_t>(begin), end - begin);
      begin = end;
      if (page.front().page < 1 || static_cast<size_t>(page.front().page) > on_page.size()) continue;
      SACCADE_TRY(read_page(page, by_object, by_hash, on_page[static_cast<size_t>(page.front().page) - 1]));
    }
    keep_what_is_not_repeated(on_page);
    return {};
  }

  Status read_page(std::span<const Placed> page, std::map<std::string, std::optional<size_t>>& by_object,
                   std::map<std::string, size_t>& by_hash, std::set<size_t>& shown) {
    std::vector<size_t> wanted;
    std::vector<size_t> unread;
    int64_t pixels = 0;
    for (size_t i = 0; i < page.size(); ++i) {
      pixels += page[i].width * page[i].height;
      if (!page[i].is_picture) continue;
      if (std::min(page[i].width, page[i].height) < options_.min_side) {
        ++document_.small_pictures;
        continue;
      }
      wanted.push_back(i);
      if (!by_object.contains(page[i].object)) unread.push_back(i);
    }
    if (!unread.empty() && pixels > options_.max_page_pixels) {
      document_.unread_pictures += static_cast<int64_t>(unread.size());
      return {};
    }
    if (!unread.empty()) {
      SACCADE_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
      const std::string number = std::to_string(page.front().page);
      SACCADE_ASSIGN(const ProcessOutcome written,
                     run(programs_.images_, {"-png", "-j", "-f", number, "-l", number, file_.string(),
                                             (folder.path() / "p").string()}));
      // Files written before a failure count; a missing file is an image that was not read.
      (void)written;
      for (const size_t i : unread) {
        std::optional<size_t>& place = by_object[page[i].object];
        if (place) continue;  // twice on this page
        const bool masked = i + 1 < page.size() && page[i + 1].is_mask;
        auto picture = take(folder.path(), i, masked);
        if (!picture && picture.error().code == ErrorCode::kCancelled) return fail(picture.error());
        if (!picture) {
          ++document_.unread_pictures;
          continue;
        }
        const auto [known, is_new] = by_hash.emplace(picture->sha256, document_.pictures.size());
        if (is_new) document_.pictures.push_back(*std::move(picture));
        place = known->second;
      }
    }
    for (const size_t i : wanted) {
      const auto found = by_object.find(page[i].object);
      if (found != by_object.end() && found->second) shown.insert(*found->second);
    }
    return {};
  }

  struct File {
    std::string bytes;
    std::string ending;
    Image image;
  };
  [[nodiscard]] Result<File> read_written(const fs::path& folder, size_t number) const {
    for (const std::string ending : {"jpg", "png"}) {
      const fs::path path = folder / fmt::format("p-{:03}.{}", number, ending);
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      File file{"", ending, {}};
      SACCADE_ASSIGN(file.bytes, read_file(path, options_.decode.max_bytes));
      DecodeOptions decode = options_.decode;
      decode.stop = stop_;
      SACCADE_ASSIGN(DecodedImage decoded, decode_image(std::as_bytes(std::span(file.bytes)), decode));
      file.image = std::move(decoded.image);
      return file;
    }
    return fail(ErrorCode::kBadData, "pdfimages could not write it");
  }

  [[nodiscard]] Result<PdfPicture> take(const fs::path& folder, size_t number, bool masked) const {
    SACCADE_ASSIGN(File file, read_written(folder, number));
    if (masked) {
      SACCADE_ASSIGN(const File mask, read_written(folder, number + 1));
      SACCADE_ASSIGN(file.bytes, encode_png(over_white(file.image, mask.image)));
      file.ending = "png";
    }
    PdfPicture picture;
    picture.sha256 = sha256_hex(file.bytes);
    picture.bytes = std::move(file.bytes);
    picture.ending = std::move(file.ending);
    picture.width = file.image.width;
    picture.height = file.image.height;
    return picture;
  }

  // An image on half of the pages or more belongs to none of them.
  void keep_what_is_not_repeated(const std::vector<std::set<size_t>>& on_page) {
    constexpr size_t kFewest = 3;  // pages: fewer say nothing
    std::vector<size_t> shown(document_.pictures.size(), 0);
    for (const std::set<size_t>& pictures : on_page) {
      for (const size_t picture : pictures) ++shown[picture];
    }
    std::vector<std::optional<size_t>> new_place(shown.size());
    std::vector<PdfPicture> kept;
    for (size_t i = 0; i < shown.size(); ++i) {
      if (shown[i] >= kFewest && 2 * shown[i] >= on_page.size()) {
        ++document_.repeated_pictures;
        continue;
      }
      new_place[i] = kept.size();
      kept.push_back(std::move(document_.pictures[i]));
    }
    document_.pictures = std::move(kept);
    for (size_t p = 0; p < on_page.size(); ++p) {
      for (const size_t picture : on_page[p]) {
        if (new_place[picture]) document_.pages[p].pictures.push_back(*new_place[picture]);
      }
    }
  }

  const PdfPrograms& programs_;
  fs::path file_;
  const PdfOptions& options_;
  const std::stop_token& stop_;
  double seconds_left_;
  int64_t pages_ = 0;
  PdfDocument document_;
};

Result<PdfDocument> read_pdf(const PdfPrograms& programs, const fs::path& file, const PdfOptions& options,
                             bool with_pictures, const std::stop_token& stop) {
  return PdfReader(programs, file, options, stop).read(with_pictures);
}

}  // namespace saccade
