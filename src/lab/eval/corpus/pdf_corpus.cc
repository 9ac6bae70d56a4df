#include "lab/eval/corpus/pdf_corpus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <system_error>

#include "lab/data/readers/manifest.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/ascii.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;

struct Sentence {
  int page = 0;
  std::string text;
  size_t picture = 0;  // the most similar one of its page
  float similarity = 0;
};

// Stored result of one document.
struct Compared {
  std::vector<std::string> pictures;  // file names in OUT/pictures
  std::vector<Sentence> sentences;
  Json counts;
};

struct Input {
  fs::path path;
  std::string sha256;
};

// Contents of a document that are still to be compared.
struct Extracted {
  PdfDocument document;
  std::vector<Sentence> sentences;
  int64_t no_prose = 0;
  int64_t pages_with_pictures = 0;
};

Result<std::vector<fs::path>> find_documents(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> paths;
  for (const fs::path& input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      if (!fs::exists(input, error))
        return fail(ErrorCode::kNotFound, "{}: no such file or folder", input.string());
      paths.push_back(input);
      continue;
    }
    std::vector<fs::path> below;
    fs::recursive_directory_iterator walk(input, fs::directory_options::skip_permission_denied, error);
    for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
      std::error_code ignored;
      const std::string ending = walk->path().extension().string();
      if (equal_in_any_case(ending, ".pdf") && walk->is_regular_file(ignored)) below.push_back(walk->path());
    }
    if (error) return fail(ErrorCode::kIo, "{}: {}", input.string(), error.message());
    std::ranges::sort(below);
    paths.insert(paths.end(), below.begin(), below.end());
  }
  if (paths.empty()) return fail(ErrorCode::kNotFound, "no PDF among the inputs");
  return paths;
}

// Returns all settings that affect the stored results of a document. Thresholds are not among them, since
// they are applied at the end.
Json settings_of(const LoadedEncoder& loaded, const PdfCorpusOptions& options) {
  return {{"format", kFormat},
          {"fingerprint", loaded.id.fingerprint},
          {"precision", enum_name(loaded.encoder->info().precision)},
          {"transparency", enum_name(options.embed.transparency)},
          {"max_pages", options.pdf.max_pages},
          {"min_side", options.pdf.min_side},
          {"max_page_pixels", options.pdf.max_page_pixels},
          {"min_words", options.prose.min_words},
          {"max_words", options.prose.max_words},
          {"letters", options.prose.letters}};
}

class Corpus {
 public:
  Corpus(const LoadedEncoder& loaded, const PdfCorpusOptions& options, ThreadPool& pool)
      : loaded_(loaded), options_(options), pool_(pool) {}

  Result<PdfCorpusReport> build() {
    const EncoderBackend& encoder = *loaded_.encoder;
    if (!encoder.info().shared_space || encoder.info().image_width == 0 || encoder.tokenizer() == nullptr) {
      return fail(ErrorCode::kUnsupported, "checkpoint {} does not compare texts with images",
                  loaded_.id.name);
    }
    if (options_.prose.min_words > options_.prose.max_words) {
      return fail(ErrorCode::kUsage, "min_words is {}, expected {} (max_words) or less",
                  options_.prose.min_words, options_.prose.max_words);
    }
    SACCADE_ASSIGN(programs_, PdfPrograms::find());
    SACCADE_ASSIGN(const std::vector<fs::path> paths, find_documents(options_.inputs));
    SACCADE_TRY(claim());
    SACCADE_ASSIGN(const std::vector<Input> inputs, hash_all(paths));
    SACCADE_TRY(compare_all(inputs));
    SACCADE_TRY(write_failures());
    if (report_.documents == 0) {
      return fail(ErrorCode::kBadData, "none of {} could be read, the first: {}: {}",
                  counted(std::ssize(paths), "document"), report_.failed.front().first.string(),
                  report_.failed.front().second.message);
    }
    SACCADE_TRY(write_manifest(inputs));
    return std::move(report_);
  }

 private:
  [[nodiscard]] fs::path document_file(const std::string& sha256) const {
    return options_.output / "documents" / (sha256 + ".json");
  }

  Status claim() {
    const fs::path& folder = options_.output;
    const fs::path description = folder / "corpus.json";
    std::error_code error;
    const bool is_ours = fs::exists(description, error);
    if (!is_ours && fs::exists(folder, error) && !fs::is_empty(folder, error)) {
      return fail(ErrorCode::kUsage, "{} has other files, and no corpus.json: choose another folder",
                  folder.string());
    }
    for (const char* part : {"documents", "pictures"}) SACCADE_TRY(make_folders(folder / part));
    SACCADE_ASSIGN(lock_, lock_file(folder / "lock", "writing this corpus"));
    settings_ = settings_of(loaded_, options_);
    if (!is_ours) return write_file_atomic(description, dump_json({{"settings", settings_}}, 2) + "\n");
    SACCADE_ASSIGN(const Json before, read_json(description));
    if (!before.is_object() || !before.contains("settings") || !before["settings"].is_object()) {
      return fail(ErrorCode::kBadData, "{} is no description of a corpus", description.string());
    }
    for (const auto& [key, value] : settings_.items()) {
      const Json was = before["settings"].value(key, Json());
      if (was != value) {
        return fail(ErrorCode::kUsage, "{} was made with {} {}, not {}: choose another folder",
                    folder.string(), key, dump_json(was), dump_json(value));
      }
    }
    return {};
  }

  Result<std::vector<Input>> hash_all(const std::vector<fs::path>& paths) {
    std::vector<Result<std::string>> hashes(paths.size(), fail(ErrorCode::kCancelled, "stopped"));
    pool_.parallel_for(static_cast<int64_t>(paths.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !options_.embed.stop.stop_requested(); ++i) {
        hashes[static_cast<size_t>(i)] = sha256_file(paths[static_cast<size_t>(i)]);
      }
    });
    std::vector<Input> inputs;
    std::set<std::string> seen;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (!hashes[i]) {
        if (hashes[i].error().code == ErrorCode::kCancelled) return fail(hashes[i].error());
        report_.failed.emplace_back(paths[i], hashes[i].error());
      } else if (seen.insert(*hashes[i]).second) {
        inputs.push_back({paths[i], *hashes[i]});
      } else {
        ++report_.same_bytes;
      }
    }
    return inputs;
  }

  // Compares all documents. They are read in parallel, one per thread, and then compared one after the other,
  // each with all threads.
  Status compare_all(const std::vector<Input>& inputs) {
    std::vector<const Input*> missing;
    for (const Input& input : inputs) {
      std::error_code error;
      if (fs::exists(document_file(input.sha256), error)) {
        ++report_.resumed;
        ++report_.documents;
      } else {
        missing.push_back(&input);
      }
    }
    const auto at_a_time = static_cast<size_t>(std::max(1, pool_.size()));
    for (size_t first = 0; first < missing.size(); first += at_a_time) {
      const size_t count = std::min(at_a_time, missing.size() - first);
      std::vector<Result<Extracted>> extracted(count, fail(ErrorCode::kCancelled, "stopped"));
      pool_.parallel_for(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          extracted[static_cast<size_t>(i)] = extract(missing[first + static_cast<size_t>(i)]->path);
        }
      });
      for (size_t i = 0; i < count; ++i) {
        if (options_.embed.stop.stop_requested()) {
          return fail(ErrorCode::kCancelled, "stopped; the same command goes on from here");
        }
        const Input& input = *missing[first + i];
        if (!extracted[i]) {
          report_.failed.emplace_back(input.path, extracted[i].error());
        } else {
          SACCADE_TRY(compare(input, *std::move(extracted[i])).in(input.path.string()));
          ++report_.documents;
        }
      }
      if (options_.embed.progress) {
        options_.embed.progress(
            {"documents", static_cast<int64_t>(first + count), static_cast<int64_t>(missing.size()), ""});
      }
    }
    return {};
  }

  Result<Extracted> extract(const fs::path& path) const {
    PdfOptions pdf = options_.pdf;
    pdf.decode.processes = options_.embed.processes;
    Extracted result;
    SACCADE_ASSIGN(result.document, read_pdf(programs_, path, pdf, true, options_.embed.stop));
    for (const PdfPage& page : result.document.pages) {
      if (page.pictures.empty()) continue;
      const size_t before = result.sentences.size();
      for (const std::string& paragraph : page.paragraphs) {
        SACCADE_ASSIGN(std::vector<std::string> sentences,
                       prose_sentences(paragraph, options_.prose, result.no_prose));
        for (std::string& sentence : sentences) {
          result.sentences.push_back({page.number, std::move(sentence), 0, 0});
        }
      }
      if (result.sentences.size() > before) ++result.pages_with_pictures;
    }
    return result;
  }

  // Images are on disk before the document's file names them.
  Status compare(const Input& input, Extracted extracted) {
    PdfDocument& document = extracted.document;
    Compared compared;
    std::vector<ImageRef> references;
    for (const PdfPicture& picture : document.pictures) {
      const std::string name = picture.sha256 + "." + picture.ending;
      const fs::path file = options_.output / "pictures" / name;
      std::error_code error;
      if (!fs::exists(file, error)) SACCADE_TRY(write_file_atomic(file, picture.bytes));
      compared.pictures.push_back(name);
      references.push_back({.path = file, .member = "", .offset = 0, .size = 0});
    }
    EncoderBackend& encoder = *loaded_.encoder;
    std::vector<TokenizedText> texts;
    int64_t cut = 0;
    for (const Sentence& sentence : extracted.sentences) {
      texts.push_back(encoder.tokenizer()->encode(sentence.text, encoder.info().context));
      if (texts.back().dropped > 0) ++cut;
    }
    int64_t unread = document.unread_pictures;
    if (!texts.empty()) {
      EmbedOptions embed = options_.embed;
      embed.progress = {};
      SACCADE_ASSIGN(const EmbeddedPictures pictures, embed_pictures(encoder, references, embed, pool_));
      SACCADE_ASSIGN(const EmbeddedRows rows, embed_texts(encoder, texts, embed));
      unread += static_cast<int64_t>(pictures.failed.size());
      // Images without embeddings have no column.
      std::vector<std::optional<int64_t>> column(document.pictures.size());
      std::set<size_t> failed;
      for (const auto& [number, error] : pictures.failed) failed.insert(static_cast<size_t>(number));
      int64_t next = 0;
      for (size_t i = 0; i < column.size(); ++i) {
        if (!failed.contains(i)) column[i] = next++;
      }
      SACCADE_TRY(score(extracted, rows, pictures.rows, column));
    }
    for (Sentence& sentence : extracted.sentences) {
      if (std::isfinite(sentence.similarity)) compared.sentences.push_back(std::move(sentence));
    }
    compared.counts = {{"pages", document.pages.size()},
                       {"pages_with_images", extracted.pages_with_pictures},
                       {"pages_left_out", document.pages_left_out},
                       {"images", document.pictures.size()},
                       {"small_images", document.small_pictures},
                       {"repeated_images", document.repeated_pictures},
                       {"unread_images", unread},
                       {"edge_lines", document.edge_lines},
                       {"no_prose", extracted.no_prose},
                       {"cut", cut}};
    Json json = {{"document", kFormat},
                 {"counts", compared.counts},
                 {"images", compared.pictures},
                 {"sentences", Json::array()}};
    for (const Sentence& sentence : compared.sentences) {
      json["sentences"].push_back({sentence.page, sentence.text, sentence.picture, sentence.similarity});
    }
    return write_file_atomic(document_file(input.sha256), dump_json(json) + "\n");
  }

  // Scores the sentences. A sentence gets no score if no image of its page has an embedding.
  static Status score(Extracted& extracted, const EmbeddedRows& texts, const EmbeddedRows& pictures,
                      const std::vector<std::optional<int64_t>>& column) {
    for (Sentence& sentence : extracted.sentences) {
      sentence.similarity = -std::numeric_limits<float>::infinity();
    }
    if (pictures.size() == 0) return {};
    SACCADE_ASSIGN(const std::unique_ptr<PairScores> scores, scores_of(texts, pictures));
    size_t begin = 0;
    for (const PdfPage& page : extracted.document.pages) {
      size_t end = begin;
      while (end < extracted.sentences.size() && extracted.sentences[end].page == page.number) ++end;
      std::vector<float> similarity(end - begin);
      for (const size_t picture : page.pictures) {
        if (end == begin || !column[picture]) continue;
        scores->score(static_cast<int64_t>(begin), static_cast<int64_t>(end - begin), *column[picture], 1,
                      similarity.data(), 1, 1);
        for (size_t i = begin; i < end; ++i) {
          if (similarity[i - begin] <= extracted.sentences[i].similarity) continue;
          extracted.sentences[i].similarity = similarity[i - begin];
          extracted.sentences[i].picture = picture;
        }
      }
      begin = end;
    }
    return {};
  }

  Result<Compared> read_compared(const fs::path& file) const {
    SACCADE_ASSIGN(const Json json, read_json(file, int64_t{1} << 30));
    const auto wrong = [&] {
      return fail(ErrorCode::kBadData, "{} is no document of a corpus: delete it, and it is made anew",
                  file.string());
    };
    if (!json.is_object() || json.value("document", Json()) != kFormat) return wrong();
    // Earlier versions called these fields "pictures", "small_pictures" and so on.
    const Json pictures = json.value(json.contains("images") ? "images" : "pictures", Json());
    const Json sentences = json.value("sentences", Json());
    Compared result;
    result.counts = json.value("counts", Json());
    if (!pictures.is_array() || !sentences.is_array() || !result.counts.is_object()) return wrong();
    for (const Json& picture : pictures) {
      if (!picture.is_string() || !is_plain_file_name(picture.get_ref<const std::string&>())) return wrong();
      result.pictures.push_back(picture.get<std::string>());
    }
    for (const Json& each : sentences) {
      if (!each.is_array() || each.size() != 4 || !each[0].is_number_integer() || !each[1].is_string() ||
          !each[2].is_number_unsigned() || !each[3].is_number()) {
        return wrong();
      }
      Sentence sentence{each[0].get<int>(), each[1].get<std::string>(), each[2].get<size_t>(),
                        each[3].get<float>()};
      if (sentence.picture >= result.pictures.size()) return wrong();
      result.sentences.push_back(std::move(sentence));
    }
    return result;
  }

  void count(const Json& counts) {
    for (const auto& [key, into] :
         std::map<std::string, int64_t*>{{"pages", &report_.pages},
                                         {"pages_with_images", &report_.pages_with_pictures},
                                         {"pages_left_out", &report_.pages_left_out},
                                         {"images", &report_.pictures},
                                         {"small_images", &report_.small_pictures},
                                         {"repeated_images", &report_.repeated_pictures},
                                         {"unread_images", &report_.unread_pictures},
                                         {"edge_lines", &report_.edge_lines},
                                         {"no_prose", &report_.no_prose},
                                         {"cut", &report_.cut}}) {
      std::string earlier = key;
      if (const size_t at = key.find("images"); at != std::string::npos) earlier.replace(at, 6, "pictures");
      *into += json_field_or<int64_t>(counts, counts.contains(key) ? key : earlier, 0).value_or(0);
    }
  }

  Status write_failures() const {
    std::string text;
    for (const auto& [path, error] : report_.failed) {
      text +=
          dump_json({{"path", path.string()}, {"code", name(error.code)}, {"reason", error.message}}) + "\n";
    }
    return write_file_atomic(options_.output / "failures.jsonl", text);
  }

  struct Best {
    float similarity = 0;
    size_t place = 0;  // place at which its text first occurred
    RatedText item;
  };

  // Writes the manifest. A text that occurs in several places counts once, with the image that is nearest to
  // it anywhere. So no text has both labels.
  Status write_manifest(const std::vector<Input>& inputs) {
    std::map<std::string, Best> texts;
    for (const Input& input : inputs) {
      std::error_code error;
      const fs::path file = document_file(input.sha256);
      if (!fs::exists(file, error)) continue;  // it failed
      SACCADE_ASSIGN(const Compared document, read_compared(file));
      count(document.counts);
      int64_t number = 0;
      for (const Sentence& sentence : document.sentences) {
        ++report_.sentences;
        ++number;
        const auto [known, is_new] = texts.try_emplace(sentence.text);
        Best& best = known->second;
        if (is_new) best.place = texts.size();
        if (!is_new && sentence.similarity <= best.similarity) continue;
        best.similarity = sentence.similarity;
        best.item.id = fmt::format("{}-{}", input.sha256.substr(0, 16), number);
        best.item.text = sentence.text;
        best.item.image = ImageRef{.path = options_.output / "pictures" / document.pictures[sentence.picture],
                                   .member = "",
                                   .offset = 0,
                                   .size = 0};
        best.item.group = input.sha256.substr(0, 16);
        best.item.source = fmt::format("{}, page {}", input.path.filename().string(), sentence.page);
      }
    }
    report_.distinct = static_cast<int64_t>(texts.size());
    if (texts.empty()) {
      return fail(ErrorCode::kBadData, "no page of {} documents has both sentences and images",
                  report_.documents);
    }
    std::vector<Best*> order;
    std::vector<float> scores;
    for (auto& [text, best] : texts) {
      order.push_back(&best);
      scores.push_back(best.similarity);
    }
    std::ranges::sort(order, {}, &Best::place);
    SACCADE_ASSIGN(const CorpusThresholds thresholds, corpus_thresholds(std::move(scores), options_));
    report_.positive = thresholds.positive;
    report_.negative = thresholds.negative;
    Dataset dataset;
    auto& rated = dataset.content.emplace<RatedTexts>().items;
    std::vector<Json> more;
    for (Best* best : order) {
      const bool visual = best->similarity > thresholds.positive;
      if (!visual && !(best->similarity < thresholds.negative)) continue;
      best->item.visual = visual;
      if (!visual) best->item.image.reset();
      ++(visual ? report_.visual : report_.non_visual);
      rated.push_back(std::move(best->item));
      more.push_back({{"similarity", best->similarity}});
    }
    SACCADE_ASSIGN(const std::string manifest, format_manifest(dataset, options_.output, more));
    SACCADE_TRY(write_file_atomic(options_.output / "manifest.jsonl", manifest));
    Json result = pdf_corpus_json(report_);
    result.erase("resumed");  // belongs to this run, not to the corpus
    const Json description = {
        {"settings", settings_}, {"checkpoint", loaded_.id.name}, {"result", std::move(result)}};
    return write_file_atomic(options_.output / "corpus.json", dump_json(description, 2) + "\n");
  }

  const LoadedEncoder& loaded_;
  const PdfCorpusOptions& options_;
  ThreadPool& pool_;
  PdfPrograms programs_;
  Descriptor lock_;
  Json settings_;
  PdfCorpusReport report_;
};

}  // namespace

Json pdf_corpus_json(const PdfCorpusReport& report) {
  Json failed = Json::array();
  for (const auto& [path, error] : report.failed) {
    failed.push_back({{"path", path.string()}, {"code", name(error.code)}, {"reason", error.message}});
  }
  return {{"documents", report.documents},
          {"resumed", report.resumed},
          {"same_bytes", report.same_bytes},
          {"pages", report.pages},
          {"pages_with_images", report.pages_with_pictures},
          {"pages_left_out", report.pages_left_out},
          {"images", report.pictures},
          {"small_images", report.small_pictures},
          {"repeated_images", report.repeated_pictures},
          {"unread_images", report.unread_pictures},
          {"edge_lines", report.edge_lines},
          {"no_prose", report.no_prose},
          {"sentences", report.sentences},
          {"distinct", report.distinct},
          {"cut", report.cut},
          {"t_pos", report.positive},
          {"t_neg", report.negative},
          {"visual", report.visual},
          {"non_visual", report.non_visual},
          {"failed", std::move(failed)}};
}

Result<CorpusThresholds> corpus_thresholds(std::vector<float> scores, const PdfCorpusOptions& options) {
  if (scores.empty()) return fail(ErrorCode::kUsage, "thresholds of no scores");
  std::ranges::sort(scores);
  const size_t n = scores.size();
  const auto share = [&](double percent) {
    const auto whole = static_cast<size_t>(std::floor(percent / 100 * static_cast<double>(n) + 1e-9));
    return std::min(n, percent > 0 ? std::max<size_t>(1, whole) : 0);
  };
  // The threshold is the score next to the last one of the share; scores strictly beyond it form the share.
  // If the share is everything, the threshold lies beyond all scores.
  const size_t above = share(options.positive_percent);
  const size_t below = share(options.negative_percent);
  CorpusThresholds thresholds;
  thresholds.positive = options.positive.value_or(above < n ? scores[n - 1 - above] : -2.0);
  thresholds.negative = options.negative.value_or(below < n ? scores[below] : 2.0);
  // Ties at the border may leave no score beyond it. A threshold given by value is used as it is.
  const size_t found_below = static_cast<size_t>(
      std::ranges::count_if(scores, [&](float score) { return score < thresholds.negative; }));
  const size_t found_above = static_cast<size_t>(
      std::ranges::count_if(scores, [&](float score) { return score > thresholds.positive; }));
  if (found_below + found_above > n ||
      (found_below > 0 && found_above > 0 && scores[found_below - 1] > scores[n - found_above])) {
    return fail(
        ErrorCode::kUsage,
        "T_neg (--bottom or --below), {:.4f}, lies above T_pos (--top or --above), {:.4f}: some of the "
        "{} sentences are on both sides",
        thresholds.negative, thresholds.positive, n);
  }
  return thresholds;
}

Result<PdfCorpusReport> build_pdf_corpus(const LoadedEncoder& loaded, const PdfCorpusOptions& options,
                                         ThreadPool& pool) {
  return Corpus(loaded, options, pool).build();
}

}  // namespace saccade::lab
