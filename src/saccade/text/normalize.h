// Normalization steps before a text is cut into words. All take valid UTF-8 of less than 2^31 bytes. They are
// linear (sorting long runs of combining marks: n log n) and thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace saccade {

// Converts to Unicode's normalization form C.
std::string to_nfc(std::string text);
// Converts to form D, which decomposes everything.
std::string to_nfd(std::string text);

// Replaces each run of white space (Unicode's property White_Space) by one space, also at both ends.
std::string collapse_white_space(std::string_view text);

// Converts each code point to lower case independently of its context, without final sigma.
std::string lowercase_each(std::string_view text);

// Unicode's full case folding, in form C: texts that differ in case alone, or in how accents are encoded, become
// equal ("\u00D6LYMPUS" and "o\u0308lympus", "STRASSE" and "stra\u00DFe"). Takes any bytes: of text that is not valid
// UTF-8 only the ASCII letters are folded.
std::string fold_case(std::string_view text);

// OpenAI's clean-up as OpenCLIP does it: html.unescape twice, " ".join(text.split()),
// lower() with final sigma. ftfy.fix_text, which the reference runs first where it is
// installed, is left out: it changes mojibake, curly quotes, ligatures and full-width
// letters, and composes (NFC); such text comes out as it went in.
std::string clean_as_openai(std::string_view text);

// Returns the version of ICU, whose tables define letters, spaces and cases: "72.1".
std::string unicode_library_version();

}  // namespace saccade
