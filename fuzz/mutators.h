// Changes of inputs that keep to a format, for fuzz_mutate: most of what bytes are changed into at random is refused by a
// parser's first line.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/random.h"

// Inserts, doubles, removes, exchanges and replaces words, signs and the given tokens.
std::string mutate_tokens(std::string_view text, std::span<const std::string_view> tokens,
                          saccade::SplitMix& random);

// The same of lines, ended as in the text, with whole lines for tokens; now and then of the tokens within a line.
std::string mutate_lines(std::string_view text, std::span<const std::string_view> lines,
                         std::span<const std::string_view> tokens, saccade::SplitMix& random);

// Changes a value, a key or the structure of JSON; `words` become keys and strings. What is no JSON is changed as tokens.
std::string mutate_json(std::string_view text, std::span<const std::string_view> words,
                        saccade::SplitMix& random);

// Changes one of the parts that stand between separators, with the function of its place (the last for those beyond).
using Mutation = std::function<std::string(std::string_view)>;
std::string mutate_part(std::string_view text, char separator, std::span<const Mutation> mutations,
                        saccade::SplitMix& random);
