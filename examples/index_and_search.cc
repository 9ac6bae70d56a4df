// Indexes a folder and searches it: index_and_search COLLECTION FOLDER TEXT
#include <cstdio>
#include <saccade/saccade.h>
#include <string>

namespace {

int failed(const saccade::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return saccade::exit_code(error.code);
}

void print_progress(const saccade::ProgressUpdate& update) {
  std::fprintf(stderr, "\r%lld of %lld", static_cast<long long>(update.done),
               static_cast<long long>(update.total));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: index_and_search COLLECTION FOLDER TEXT\n");
    return 2;
  }
  auto photos = saccade::Engine::open(argv[1], {.create = true});
  if (!photos) return failed(photos.error());
  const auto report = photos->index({argv[2]}, {.on_progress = print_progress});
  if (!report) return failed(report.error());
  std::fprintf(stderr, "\n%lld images added\n", static_cast<long long>(report->added));
  const auto answer = photos->search(argv[3], {.k = 5});
  if (!answer) return failed(answer.error());
  for (const saccade::Hit& hit : answer->hits) {
    std::printf("%.3f  %-12s  %s\n", hit.score, std::string(saccade::name(hit.match)).c_str(),
                hit.path.c_str());
  }
}
