#include "core_options.h"

namespace saccade::app {

EngineCoreOptions core_options(const std::filesystem::path& folder, const std::string& checkpoint,
                               const EncoderChoice& encoder, Session& session) {
  EngineCoreOptions options;
  options.folder = folder;
  options.checkpoint = checkpoint;
  options.precision = encoder.fastest ? Precision::kAuto : encoder.precision;
  options.threads = encoder.threads;
  options.device = encoder.device;
  options.decoders = [&session] { return session.decoders.start(session.messages); };
  options.note = [&session](const Note& note) {
    note.warning ? session.messages.warning(note.text) : session.messages.info(note.text);
  };
  return options;
}

}  // namespace saccade::app
