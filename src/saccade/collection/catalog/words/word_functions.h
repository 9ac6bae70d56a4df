// The function of the word index that every connection has (word_counts.cc). Not for use outside this module.
#pragma once

struct sqlite3;

namespace saccade::store {

// Adds the function by which count_words() counts. Every connection has it. Returns SQLite's result.
int add_word_functions(sqlite3* connection);

}  // namespace saccade::store
