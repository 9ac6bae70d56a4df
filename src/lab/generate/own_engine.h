// Saccade's own image engine: an editor (lab/editor/editor.h) that changes a reference image as a text says.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lab/editor/editor.h"
#include "saccade/core/error.h"
#include "saccade/imagegen/image_engine.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

struct OwnEngineOptions {
  std::filesystem::path editor;   // folder of the editor's checkpoint; empty: editor_checkpoint()
  std::string prompt = "{text}";  // instruction to the editor; {text} stands for the request's text
  EditSettings edit;
  BackendOptions encoder;
};

// Loads the editor and returns it as an engine. Errors: kUsage for a prompt without {text}, and those of
// Editor::open.
Result<std::unique_ptr<PictureEngine>> open_own_engine(const OwnEngineOptions& options);

}  // namespace saccade::lab
