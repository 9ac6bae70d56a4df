// The table of a study's leaderboard, for its page and its files.
#pragma once

#include "lab/eval/study/leaderboard.h"
#include "lab/report/table.h"

namespace saccade::lab {

// Returns the table: a row per model by rank, with the columns that were measured.
Table leaderboard_table(const Leaderboard& board);

}  // namespace saccade::lab
