// What ThreadSanitizer is not to report: libraries that were not built with it, whose locks and hand-overs it cannot
// see. Nothing of ours is named here. Compiled into the programs of the tsan build only.
// Exported: the runtime, a shared library, looks it up by name.
extern "C" [[gnu::visibility("default")]] const char*
__tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "called_from_lib:libdnnl.so\n"  // its loops run on OpenMP's threads, which wait for each other by futexes alone
         "race:libdnnl.so\n"             // the same, in what it is called with
         "race:libglib-2.0.so\n"  // its mutexes and its allocator's caches are futexes and atomics of its own
         "race:libgobject-2.0.so\n"          // types and reference counts, on glib's atomics
         "race:libvips.so\n"                 // pictures go from thread to thread by glib's mutexes
         "race:libpng16.so\n"                // called by libvips on whichever thread has the picture
         "race:libjpeg.so\n"                 // likewise
         "race:libz.so\n"                    // likewise, below libpng
         "race:libwebp.so\n"                 // the same as libpng
         "race:libwebpmux.so\n"              // likewise
         "mutex:std::timed_mutex::unlock\n"  // locked by pthread_mutex_clocklock, which GCC 12's runtime does not see
         "race:librsvg-2.so\n"               // names of elements, shared between pictures, on atomics of Rust
         "race:libcairo.so\n";               // called by librsvg; counts its references by atomics of its own
}
