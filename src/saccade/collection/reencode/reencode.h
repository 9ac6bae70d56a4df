// Fills a second collection with the items of a first one, encoded anew from their files by another encoder, while the
// first one is searched.
//
// The second collection is a copy of the first one in all but its embeddings: paths, captions, dates, metadata and the
// list of images that are to stay out. Each run makes it so again. It encodes what the copy lacks, carries over captions
// and metadata that have changed, and removes what the first one has lost. A run that was killed goes on where its last
// transaction ended.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/progress.h"

namespace saccade {

struct ReencodeReport {
  int64_t items = 0;       // of the first collection, at the last look
  int64_t added = 0;       // new in the copy, duplicates included
  int64_t updated = 0;     // encoded again, because their content had changed in the first collection
  int64_t duplicates = 0;  // among `added`: the same bytes as another item; not encoded again
  int64_t described = 0;   // items whose caption, date or metadata was carried over again
  int64_t moved = 0;       // items that have another path by now; not encoded again
  int64_t removed = 0;     // items that the first collection no longer has
  int64_t unchanged = 0;   // items that the copy had as they are when the run began
  // Items that are left out, by path: kNotFound if their file is not here, kMismatch if it has changed since it was
  // indexed, other codes if it cannot be read.
  std::vector<Failure> failed;
  bool cancelled = false;  // asked to stop: all counted above is committed, the same call goes on from here
};

// Returns the text by which a copy knows the collection that it is made from (CollectionInfo::copy_of): when that was
// created, and its encoder's fingerprint. It stays the same if the collection is moved.
std::string identity_of(const CollectionInfo& info);
// Checks that `copy` was created as a copy of `from` and has not taken its place yet: kMismatch otherwise, because a run
// removes what `from` does not have.
Status check_copy(const CollectionInfo& copy, const CollectionInfo& from);

// Makes `into` a copy of `from` with embeddings of `encoder`, which is loaded only if something is to be encoded. When
// all is encoded, it looks at `from` again, until nothing has been added meanwhile. In a folder, items keep the ids that
// they have in a folder.
//
// Options in use are `limits`, `video_tools`, `videos`, `batch`, `mix_precisions` and those of memory and transactions. An
// item that cannot be encoded never ends the run. Errors that do: those of check_copy and check_encoder, a failing encoder,
// kIo, and kLimit if
// `from` has changed during each of many passes. `from` is refreshed meanwhile. Memory: that of ingest(), and the items of `from`. Must not be called from inside a
// task of `pool`.
Result<ReencodeReport> reencode(CollectionWriter& into, const EncoderSource& encoder, CollectionReader& from,
                                const IngestOptions& options, ThreadPool& pool,
                                const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade
