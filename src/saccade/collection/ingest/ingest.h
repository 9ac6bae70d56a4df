// Ingest: walks folders, skips unchanged files, decodes on all cores, encodes in batches, and writes in
// transactions.
//
//   walk -> unchanged? -> block of files -> read, hash, decode, preprocess -> decide -> encode -> transaction
//          calling thread                            thread pool                    calling thread
//
// The pool prepares the next block while the calling thread decides about one.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>

#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"

namespace saccade {

// kMismatch where the collection's rows were made in another precision.
Status check_same_precision(const CollectionInfo& info, Precision precision);

// Checks that the encoder is the collection's, before any file is read: checkpoint, precision (unless
// IngestOptions::mix_precisions) and grid of patches. kMismatch.
Status check_encoder(const CollectionWriter& collection, EncoderBackend& encoder,
                     const IngestOptions& options);

// Gives the encoder when it is first needed, which is never where nothing is
// new. The encoder outlives the run.
using EncoderSource = std::function<Result<EncoderBackend*>()>;

// kNotFound, in the words of ingest(), if none of `inputs`
// exists: to be asked before a collection is made for them.
Status check_any_input(std::span<const std::filesystem::path> inputs);

// Adds or refreshes the images and videos of `inputs`. Folders are walked recursively for files with an
// image's extension; files are tried whatever their name. A failing file never ends the run: it is remembered
// and reported. These errors end it: kNotFound if none of the inputs exists, kMismatch if `encoder` is not
// the collection's, a failing encoder, and kIo (a full disk). Transactions committed before are kept.
//
// Two runs over the same files give the same items. Ids follow the order of inputs, with names sorted within
// a folder. Memory: pixels_in_flight x 4 bytes, the list of paths, and prepared images (four times the
// batch, or eight times the pool's threads if that is more). Must not be called from inside a task of `pool`.
Result<IngestReport> ingest(CollectionWriter& collection, EncoderBackend& encoder,
                            std::span<const std::filesystem::path> inputs, const IngestOptions& options,
                            ThreadPool& pool, const ProgressCallback& progress = {},
                            std::stop_token stop = {});
// Likewise with an encoder that is loaded only where a file is new or has changed.
Result<IngestReport> ingest(CollectionWriter& collection, const EncoderSource& encoder,
                            std::span<const std::filesystem::path> inputs, const IngestOptions& options,
                            ThreadPool& pool, const ProgressCallback& progress = {},
                            std::stop_token stop = {});

}  // namespace saccade
