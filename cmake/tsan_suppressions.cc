// What ThreadSanitizer is not to report: libraries that were not built with it, whose locks and hand-overs it cannot
// see. Nothing of ours is named here. Compiled into the programs of the tsan build only.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "called_from_lib:libdnnl.so\n";  // its loops run on OpenMP's threads, which wait for each other by futexes alone
}
