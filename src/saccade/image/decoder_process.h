// The program saccade-decode: decodes what it is sent until its socket closes (decoder_messages.h).
#pragma once

#include <span>
#include <string>

#include "saccade/image/facts.h"

namespace saccade {

// Runs the decoder over the descriptors it was started with; `arguments` are those of the program:
// the protocol's number, and its memory in bytes. Returns the program's exit code, the reason in
// `problem`. From the only thread of a fresh process. `read_facts` reads what files say of
// themselves, where that is asked for.
int run_decoder_process(std::span<const std::string> arguments, ReadFacts read_facts, std::string& problem);

}  // namespace saccade
