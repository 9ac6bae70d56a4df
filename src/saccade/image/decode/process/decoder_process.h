// The program saccade-decode: decodes what it is sent until its socket closes (decoder_messages.h).
#pragma once

#include <span>
#include <string>

#include "saccade/image/decode/raw.h"
#include "saccade/image/metadata/facts.h"

namespace saccade {

// Parsers of foreign bytes other than libvips, from libraries that no other program links.
struct DecoderReaders {
  ReadFacts facts = nullptr;
  decltype(&read_raw) raw = nullptr;  // nullptr: the build has no LibRaw
};

// Runs the decoder over the descriptors it was started with; `arguments` are those of the program: the
// protocol's number, and its memory in bytes. Returns the program's exit code, the reason in
// `problem`. From the only thread of a fresh process. `readers.facts` reads what files say of
// themselves, where that is asked for.
int run_decoder_process(std::span<const std::string> arguments, const DecoderReaders& readers,
                        std::string& problem);

}  // namespace saccade
