// Answers for people: lines for the terminal, and the page.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/files/output_file.h"
#include "saccade/core/threads.h"
#include "saccade/pages/search_page.h"
#include "saccade/search/search.h"

#include "command.h"
#include "print/terminal.h"

namespace saccade::app {

// Formats one line per hit: rank, score, match probability, path, caption, and an image if the terminal can
// show it. Empty without hits.
std::string answer_text(const SearchAnswer& answer, const Terminal& terminal, Session& session);
// Why there are none.
std::string nothing_found_text(const SearchAnswer& answer);

// Writes the page of all answers to `file`, whole or not at all. `options` has the page's words; the rest of
// it is filled in here. `rules` say what `file` may not be.
Status write_search_page(const std::filesystem::path& file, const OutputRules& rules,
                         std::span<const SearchAnswer> answers, const CollectionReader& collection,
                         SearchPageOptions options, ThreadPool& pool, Session& session);

}  // namespace saccade::app
