// The server's own API: what changes collections.
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "saccade/serve/formats/api.h"
#include "saccade/serve/formats/multipart.h"
#include "saccade/serve/jobs.h"

namespace saccade::serve {
namespace {

Json job_json(const JobState& job) {
  return {{"id", job.id},
          {"collection", job.collection},
          {"folder", job.folder},
          {"state", job.state},
          {"what", job.what},
          {"done", job.done},
          {"total", job.total},
          {"seconds", job.seconds},
          {"error", job.error.empty() ? Json() : Json(job.error)},
          {"report", job.report},
          {"notes", job.notes}};
}

HttpResponse forbidden(std::string_view message) {
  return json_response({{"error", {{"code", "forbidden"}, {"message", message}}}}, 403);
}

// The job that a path names. One of a collection that the request's keys do not allow is not there.
Result<JobState> named_job(const Context& context, const Parts& parts) {
  SACCADE_ASSIGN(const auto id, number_of<int64_t>("id", parts[0]));
  if (context.jobs == nullptr) return fail(ErrorCode::kNotFound, "no job {}", id);
  SACCADE_ASSIGN(JobState job, context.jobs->job(id));
  if (context.access.in(job.collection) == Right::kNone) return fail(ErrorCode::kNotFound, "no job {}", id);
  return job;
}

}  // namespace

Result<HttpResponse> jobs(const Context& context, const HttpRequest&, const Parts&) {
  Json list = Json::array();
  Json folders = Json::array();
  // Clients offer no change that the keys allow in no collection.
  const bool may_change = context.jobs != nullptr && context.access.anywhere() == Right::kWrite;
  if (context.jobs != nullptr) {
    for (const JobState& job : context.jobs->all()) {
      if (context.access.in(job.collection) != Right::kNone) list.push_back(job_json(job));
    }
    if (may_change) {
      for (const std::string& folder : context.jobs->folders()) folders.push_back(folder);
    }
  }
  return json_response({{"folders", std::move(folders)},
                        {"takes_images", may_change && context.jobs->takes_pictures()},
                        {"jobs", std::move(list)}});
}

Result<HttpResponse> start_job(const Context& context, const HttpRequest& request, const Parts& parts) {
  constexpr std::array<std::string_view, 3> kFields = {"folder", "prune", "retry_failed"};
  SACCADE_ASSIGN(ServedCollection * collection, context.collection(parts[0]));
  SACCADE_ASSIGN(const UntrustedJson json, json_body(context, request, kFields));
  SACCADE_ASSIGN(const std::string folder, json_field<std::string>(json, "folder"));
  SACCADE_ASSIGN(const bool prune, json_field_or<bool>(json, "prune", false));
  SACCADE_ASSIGN(const bool retry_failed, json_field_or<bool>(json, "retry_failed", false));
  if (context.jobs == nullptr || context.jobs->folders().empty()) {
    return forbidden("this server indexes nothing: it was started without --index-folder");
  }
  SACCADE_ASSIGN(const JobState job, context.jobs->start(*collection, folder, prune, retry_failed));
  HttpResponse response = json_response(job_json(job), 202);
  response.headers.emplace_back("Location", fmt::format("/api/jobs/{}", job.id));
  return response;
}

Result<HttpResponse> job(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const JobState job, named_job(context, parts));
  return json_response(job_json(job));
}

Result<HttpResponse> cancel_job(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const JobState named, named_job(context, parts));
  if (context.access.in(named.collection) < Right::kWrite) {
    return forbidden("this key may not change this collection");
  }
  SACCADE_ASSIGN(const JobState job, context.jobs->cancel(named.id));
  return json_response(job_json(job));
}

// An event "job" for each change, the last of them once it has ended.
Result<HttpResponse> job_events(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(const JobState named, named_job(context, parts));
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.events = [jobs = context.jobs, id = named.id, sent = int64_t{-1},
                     ended = false]() mutable -> std::optional<std::string> {
    const Result<JobState> job = jobs->job(id);
    if (ended || !job) return std::nullopt;
    if (job->version == sent) return "";
    sent = job->version;
    ended = job->ended();
    return fmt::format("event: job\ndata: {}\n\n", dump_json(job_json(*job)));
  };
  return response;
}

Result<HttpResponse> add_picture(const Context& context, const HttpRequest& request, const Parts& parts) {
  SACCADE_ASSIGN(ServedCollection * collection, context.collection(parts[0]));
  if (context.jobs == nullptr || !context.jobs->takes_pictures()) {
    return forbidden("this server takes no images: it was started without --allow-write");
  }
  SACCADE_ASSIGN(const std::vector<FormPart> form,
                 parse_form(request.header("content-type").value_or(""), request.body));
  std::string_view bytes;
  std::string caption;
  for (const FormPart& part : form) {
    if (part.name == "image" && part.bytes.empty()) {
      return fail(ErrorCode::kUsage, "\"image\": a file of 0 bytes");
    }
    if (part.name == "image" && bytes.empty()) {
      bytes = part.bytes;
    } else if (part.name == "caption") {
      caption = std::string(part.bytes);
    } else {
      return fail(ErrorCode::kUsage, "\"{}\" is not known here, or there twice; there are: image, caption",
                  part.name);
    }
  }
  if (bytes.empty()) return fail(ErrorCode::kUsage, "the form has no \"image\"");
  SACCADE_TRY(check_text(context, caption).in("\"caption\""));
  SACCADE_ASSIGN(const int64_t id, context.jobs->add_picture(*collection, bytes, caption, context.limits()));
  SACCADE_ASSIGN(const Item item, collection->now()->collection.item(id));
  SACCADE_ASSIGN(const Json facts, picture_facts(*collection, item));
  HttpResponse response = json_response(facts, 201);
  response.headers.emplace_back("Location", picture_path(*collection, id));
  return response;
}

Result<HttpResponse> remove_picture(const Context& context, const HttpRequest&, const Parts& parts) {
  SACCADE_ASSIGN(ServedCollection * collection, context.collection(parts[0]));
  if (context.jobs == nullptr || !context.jobs->takes_pictures()) {
    return forbidden("this server removes no images: it was started without --allow-write");
  }
  SACCADE_ASSIGN(const auto id, number_of<int64_t>("id", parts[1]));
  SACCADE_TRY(context.jobs->remove_picture(*collection, id));
  HttpResponse response;
  response.status = 204;
  return response;
}

}  // namespace saccade::serve
