#include "saccade/model/options/precision_choice.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <system_error>

#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/user_folders.h"
#include "saccade/core/hash.h"
#include "saccade/core/json.h"
#include "saccade/core/process/processor_name.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/build_versions.h"
#include "saccade/model/checkpoints/fingerprint.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"
#include "saccade/nn/linear/packed_linear.h"
#include "saccade/nn/versions.h"
#include "saccade/version.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Everything that a choice depends on.
Result<std::string> key_of(const fs::path& checkpoint, const BackendOptions& options) {
  SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(checkpoint, options.fingerprints));
  const int threads = options.threads > 0 ? options.threads : available_processors();
  std::string key = fmt::format(
      "measured by encoding\ncheckpoint {}\nprocessor {}\ninstructions {}\nthreads {}\nsaccade {}\n",
      fingerprint, processor_name(), instruction_set(), threads, version());
  for (const auto& [name, number] : nn::library_versions()) key += fmt::format("{} {}\n", name, number);
  return key;
}

fs::path record_of(const fs::path& memory, const std::string& key) {
  return memory / (sha256_hex(key) + ".json");
}

// Reads a remembered choice; `nullopt` if there is none, or the record is broken.
std::optional<PrecisionChoice> recall(const fs::path& memory, const std::string& key) {
  constexpr int64_t kMaxRecord = 1 << 20;
  const auto json = read_json(record_of(memory, key), kMaxRecord);
  if (!json || !json->is_object()) return std::nullopt;
  const auto same = json_field<std::string>(*json, "key");
  const auto name = json_field<std::string>(*json, "precision");
  const auto measured = json_field<std::string>(*json, "measured");
  if (!same || *same != key || !name || !measured || measured->empty()) return std::nullopt;
  const auto precision = from_name<Precision>(*name);
  if (!precision) return std::nullopt;
  PrecisionChoice choice;
  choice.taken = *precision;
  choice.remembered = *measured;
  return choice;
}

void remember(const fs::path& memory, const std::string& key, const PrecisionChoice& choice) {
  if (!make_folders(memory)) return;
  const Json record = {
      {"key", key}, {"precision", enum_name(choice.taken)}, {"measured", precision_choice_text(choice)}};
  (void)write_file_atomic(record_of(memory, key), dump_json(record, 2) + "\n");
}

// Returns the seconds of the fastest of a few repetitions, within 1.5 s if one takes less. A warm-up pass packs
// the weights before.
Result<double> seconds_of(EncoderBackend& encoder, const BundledInputs& inputs) {
  constexpr double kEnough = 1.5;
  constexpr int kMostTimes = 5;
  const auto began = std::chrono::steady_clock::now();
  SACCADE_TRY(encode_inputs(encoder, inputs));
  double best = std::numeric_limits<double>::infinity();
  for (int time = 0; time == 0 || (time < kMostTimes && seconds_since(began) + best < kEnough); ++time) {
    const auto start = std::chrono::steady_clock::now();
    SACCADE_TRY(encode_inputs(encoder, inputs));
    best = std::min(best, seconds_since(start));
  }
  return best;
}

Result<PrecisionChoice> measure(const fs::path& checkpoint, const BackendOptions& options) {
  constexpr int64_t kInputs = 4;
  const auto load = [&](Precision precision) {
    BackendOptions asked = options;
    asked.precision = precision;
    return load_encoder(checkpoint, asked);
  };
  SACCADE_ASSIGN(const bool bf16, nn::without_exceptions("measure precisions", [] {
                   return Result<bool>(nn::multiplies(DType::kBF16));
                 }));
  PrecisionChoice choice;
  SACCADE_ASSIGN(const std::unique_ptr<EncoderBackend> reference, load(Precision::kFp32));
  SACCADE_ASSIGN(const BundledInputs inputs, bundled_inputs(*reference, kInputs));
  choice.images = inputs.pixels.rows();
  choice.texts = std::ssize(inputs.texts);
  // The candidate loaded last is kept beside the reference, since it is compared next if it is the fastest.
  std::unique_ptr<EncoderBackend> candidate;
  Precision loaded = Precision::kFp32;
  const auto encoder_in = [&](Precision precision) -> Result<EncoderBackend*> {
    if (precision == Precision::kFp32) return reference.get();
    if (precision != loaded) {
      candidate.reset();
      SACCADE_ASSIGN(candidate, load(precision));
      loaded = precision;
    }
    return candidate.get();
  };
  for (const EnumName<Precision>& entry : kPrecisionNames) {
    if (entry.value == Precision::kBf16 && !bf16) continue;
    SACCADE_ASSIGN(EncoderBackend* const encoder, encoder_in(entry.value));
    SACCADE_ASSIGN(const double seconds, seconds_of(*encoder, inputs));
    choice.speeds.push_back({entry.value, seconds});
  }
  std::ranges::stable_sort(choice.speeds, std::ranges::less(), &PrecisionSpeed::seconds);
  for (const PrecisionSpeed& speed : choice.speeds) {
    choice.taken = speed.precision;
    if (speed.precision == Precision::kFp32) break;
    SACCADE_ASSIGN(EncoderBackend* const encoder, encoder_in(speed.precision));
    SACCADE_ASSIGN(const PrecisionReceipt receipt, bundled_receipt(*encoder, *reference));
    choice.receipts.push_back(receipt);
    if (keeps_rows(receipt)) break;
  }
  return choice;
}

}  // namespace

fs::path user_precision_memory() {
  const auto cache = user_cache_folder();
  return cache ? *cache / "precisions" : fs::path();
}

Result<PrecisionChoice> choose_precision(const fs::path& checkpoint, const BackendOptions& options,
                                         const fs::path& memory) {
  if (!is_processor(options.device)) {
    return fail(ErrorCode::kUsage,
                "precision auto measures the processor's own formats; with device {} name fp32 or bf16",
                options.device);
  }
  if (memory.empty()) return measure(checkpoint, options);
  SACCADE_ASSIGN(const std::string key, key_of(checkpoint, options));
  if (auto known = recall(memory, key)) return *std::move(known);
  SACCADE_ASSIGN(PrecisionChoice choice, measure(checkpoint, options));
  remember(memory, key, choice);
  return choice;
}

std::string precision_choice_text(const PrecisionChoice& choice) {
  if (!choice.remembered.empty()) return choice.remembered + " (measured before, and remembered)";
  std::string text = fmt::format("precision {}: milliseconds here for", enum_name(choice.taken));
  if (choice.images > 0) text += fmt::format(" {}", counted(choice.images, "image"));
  if (choice.images > 0 && choice.texts > 0) text += " and";
  if (choice.texts > 0) text += fmt::format(" {}", counted(choice.texts, "text"));
  text += ":";
  for (const PrecisionSpeed& speed : choice.speeds) {
    text += fmt::format("{} {} {:.1f}", speed.precision == choice.speeds.front().precision ? "" : ",",
                        enum_name(speed.precision), speed.seconds * 1e3);
  }
  for (const PrecisionReceipt& receipt : choice.receipts) {
    text += fmt::format("; {}{}, cosines to fp32's rows:", enum_name(receipt.precision),
                        keeps_rows(receipt) ? "" : " loses too much");
    if (receipt.pictures) text += fmt::format(" {}", agreement_text(*receipt.pictures, "image"));
    if (receipt.texts) {
      text += fmt::format("{} {}", receipt.pictures ? "," : "", agreement_text(*receipt.texts, "text"));
    }
    if (const std::string wide = wide_layers_text(receipt.wide_layers); !wide.empty()) text += "; " + wide;
  }
  return text;
}

}  // namespace saccade
