// Answers for people: lines for the terminal, and the page.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "saccade/collection/collection.h"
#include "saccade/core/threads.h"
#include "saccade/search/search.h"

#include "command.h"

namespace saccade::app {

// A line a hit: rank, score, path, caption.
std::string answer_text(const Answer& answer);

// Writes the page of all answers to `file`, whole or not at all.
Status write_search_page(const std::filesystem::path& file, std::span<const Answer> answers,
                         const Collection& collection, std::string_view title, ThreadPool& pool,
                         Session& session);

}  // namespace saccade::app
