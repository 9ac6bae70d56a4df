#include "saccade/collection/weaviate/weaviate_store.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/weaviate/objects.h"
#include "saccade/collection/weaviate/send_objects.h"
#include "saccade/collection/weaviate/where.h"
#include "saccade/core/base64.h"
#include "saccade/image/metadata/look.h"

namespace saccade::weaviate {
namespace {

constexpr int64_t kPage = 500;        // objects a request, of a listing
constexpr int64_t kSampleRows = 256;  // UUIDs are hashes, so that the first objects are a uniform sample
constexpr int64_t kMostCounted = 64;

std::string where_argument(const std::string& where) {
  return where.empty() ? "" : " where:" + where;
}

// Returns a condition for a request that sorts. Weaviate 1.35 reads the objects that meet a single comparison only up to
// the request's limit, and sorts these; it reads all that meet an Or.
std::string sorted_where(const std::string& where) {
  if (where.empty()) return where;
  return fmt::format("{{operator:Or,operands:[{},{}]}}", where, equals("path", "-"));  // no path is stored so
}

// Returns the condition that an image was analyzed, and has at least this grain.
std::string grain_from(double least) {
  FilterNode node{.kind = FilterNode::Kind::kCondition, .field = "photograph"};
  node.compare = FilterNode::Compare::kAtLeast;
  node.value = least;
  return where_of(node).graphql;
}

// Kind of the notes that Store::keep makes.
constexpr std::string_view kKeptKind = "kept";

constexpr std::string_view kFields = "{item _additional{id}}";
constexpr std::string_view kFieldsWithRow = "{item row _additional{id}}";

std::string row_text(std::span<const float> row) {
  std::string text;
  for (const float value : row) text += fmt::format("{}{}", text.empty() ? "" : ",", value);
  return text;
}

Status check_version(const std::string& version) {
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec == std::errc() && first.ptr < end) std::from_chars(first.ptr + 1, end, minor);
  if (major > kOldestMajor || (major == kOldestMajor && minor >= kOldestMinor)) return {};
  return fail(ErrorCode::kUnsupported, "Weaviate is of version {}, expected {}.{} or newer", version,
              kOldestMajor, kOldestMinor);
}

// Reads objects of GraphQL's answer, which has `item` and _additional{id}, and `row` if `rows`. address: gives their paths.
Result<std::vector<WholeItem>> items_in(const Address& address, const Json& list, bool rows) {
  std::vector<WholeItem> items;
  if (!list.is_array()) return fail(ErrorCode::kBadData, "Weaviate's answer has no list of objects");
  for (const Json& object : list) {
    SACCADE_ASSIGN(const std::string text, json_field<std::string>(object, "item"));
    SACCADE_ASSIGN(const std::string uuid, json_field<std::string>(member(object, "_additional"), "id"));
    SACCADE_ASSIGN(WholeItem whole, item_of(address, uuid, text));
    if (rows) {
      SACCADE_ASSIGN(whole.values, row_of(object).in(whole.item.path));
    }
    items.push_back(std::move(whole));
  }
  return items;
}

// Reads the number of `Aggregate{x{meta{count}}}`.
Result<int64_t> count_in(const Json& aggregate, const std::string& name) {
  const Json& found = member(aggregate, name);
  if (!found.is_array() || found.empty()) {
    return fail(ErrorCode::kBadData, "Weaviate's answer has no number of objects");
  }
  return json_field<int64_t>(member(found.front(), "meta"), "count");
}

}  // namespace

Result<Opened> open_cluster(const std::filesystem::path& text) {
  const auto opened = [&]() -> Result<Opened> {
    SACCADE_ASSIGN(Address address, parse_address(text));
    SACCADE_ASSIGN(ClientOptions options, client_options([](const char* name) { return std::getenv(name); }));
    auto client = std::make_shared<const Client>(std::move(address), std::move(options));
    SACCADE_ASSIGN(const Json meta, client->call({.path = "/v1/meta", .may_lack = true}));
    Opened found;
    if (meta.is_null()) {
      return fail(ErrorCode::kBadData, "{}: not a Weaviate server: it has no /v1/meta", text.string());
    }
    SACCADE_ASSIGN(found.version, json_field<std::string>(meta, "version").in("not a Weaviate server"));
    SACCADE_TRY(check_version(found.version));
    found.client = std::move(client);
    return found;
  };
  return opened().in("open collection");
}

Result<Opened> open_class(const std::filesystem::path& text) {
  SACCADE_ASSIGN(Opened opened, open_cluster(text));
  const auto read = [&]() -> Status {
    Address address = opened.client->address();
    SACCADE_ASSIGN(const Json schema,
                   opened.client->call({.path = "/v1/schema/" + address.name, .may_lack = true}));
    if (schema.is_null()) {
      return fail(ErrorCode::kNotFound, "no class {} in this Weaviate cluster", address.name);
    }
    SACCADE_ASSIGN(opened.info, info_of_class(schema));
    SACCADE_ASSIGN(address.name, json_field<std::string>(schema, "class"));
    if (address.name != opened.client->address().name) {
      SACCADE_ASSIGN(ClientOptions options,
                     client_options([](const char* name) { return std::getenv(name); }));
      opened.client = std::make_shared<const Client>(std::move(address), std::move(options));
    }
    return {};
  };
  SACCADE_TRY(read().in(fmt::format("open collection: {}", text.string())));
  return opened;
}

Status for_each_object(const Client& client, std::string_view class_name,
                       const std::function<Status(const Json& object)>& visit, int64_t most) {
  std::string after;
  std::set<std::string> cursors;
  while (most > 0) {
    SACCADE_ASSIGN(
        const Json page,
        client.call({.path = fmt::format("/v1/objects?class={}&limit={}{}", class_name, std::min(most, kPage),
                                         after.empty() ? "" : "&after=" + after)}));
    const Json& objects = member(page, "objects");
    if (!objects.is_array()) return fail(ErrorCode::kBadData, "Weaviate's answer has no list of objects");
    if (objects.empty()) return {};
    SACCADE_ASSIGN(std::string last, json_field<std::string>(objects.back(), "id"));
    if (!cursors.insert(last).second) {
      return fail(ErrorCode::kBadData,
                  "Weaviate's list of objects does not end: after {} it comes to {} again", after, last);
    }
    for (const Json& object : objects) {
      if (most-- == 0) return {};
      SACCADE_TRY(visit(object));
    }
    after = std::move(last);
  }
  return {};
}

Result<std::vector<WholeItem>> items_where(const Client& client, const std::string& where, int64_t count,
                                           bool rows) {
  SACCADE_ASSIGN(const Json data,
                 client.ask(fmt::format(
                     "{{Get{{x:{}(limit:{} sort:[{{path:[\"number\"],order:asc}}]{}){}}}}}",
                     client.address().name, count, where_argument(where), rows ? kFieldsWithRow : kFields)));
  return items_in(client.address(), member(member(data, "Get"), "x"), rows);
}

Result<WholeItem> whole_of_id(const Client& client, int64_t id, bool rows) {
  SACCADE_ASSIGN(
      std::vector<WholeItem> found,
      items_where(client, fmt::format("{{path:[\"number\"],operator:Equal,valueNumber:{}}}", id), 2, rows));
  if (found.empty()) return fail(ErrorCode::kNotFound, "id {}: no such item", id);
  if (found.size() > 1) {
    return fail(ErrorCode::kBadData, "id {} is that of {} and of {}: name one of them by its path", id,
                found[0].item.path, found[1].item.path);
  }
  return std::move(found.front());
}

Status for_each_note(
    const Client& client,
    const std::function<Status(const std::string& kind, const std::string& path, const Json& note)>& visit) {
  return for_each_object(client, client.address().name + std::string(kNotes),
                         [&](const Json& object) -> Status {
                           const Json& properties = member(object, "properties");
                           SACCADE_ASSIGN(const auto kind, json_field<std::string>(properties, "kind"));
                           if (kind == kept_text(kKeptKind)) return {};
                           SACCADE_ASSIGN(const auto path, json_field<std::string>(properties, "path"));
                           SACCADE_ASSIGN(const auto text, json_field<std::string>(properties, "note"));
                           SACCADE_ASSIGN(const Json note, parse_json(text));
                           return visit(kind.size() > 2 ? kind.substr(1, kind.size() - 2) : kind,
                                        local_path(client.address(), path), note);
                         });
}

Json failure_note(const Failure& failure) {
  return {{"code", name(failure.code)},   {"reason", failure.reason}, {"size", failure.size},
          {"mtime_ns", failure.mtime_ns}, {"when", failure.when},     {"tries", failure.tries}};
}

Failure failure_of_note(const std::string& path, const Json& note) {
  Failure failure;
  failure.path = path;
  failure.code = error_code_of(json_field_or<std::string>(note, "code", "").value_or(""));
  failure.reason = json_field_or<std::string>(note, "reason", "").value_or("");
  failure.size = json_field_or<int64_t>(note, "size", kUnknownState).value_or(kUnknownState);
  failure.mtime_ns = json_field_or<int64_t>(note, "mtime_ns", kUnknownState).value_or(kUnknownState);
  failure.when = json_field_or<int64_t>(note, "when", 0).value_or(0);
  failure.tries = json_field_or<int64_t>(note, "tries", 1).value_or(1);
  return failure;
}

struct Store::State {
  Opened opened;
  std::filesystem::path text;
  int64_t items = 0;
  mutable std::mutex mutex;
  mutable std::shared_ptr<const Matrix<float>> sample;
  mutable std::optional<store::WordStems> stems;

  [[nodiscard]] const Client& client() const { return *opened.client; }
  [[nodiscard]] const std::string& name() const { return client().address().name; }
  [[nodiscard]] std::string notes() const { return name() + std::string(kNotes); }
  // Returns the UUID of the note that keeps bytes under a name.
  [[nodiscard]] std::string kept_uuid(std::string_view of) const {
    return uuid_of(notes(), fmt::format("{}\n{}", kKeptKind, of));
  }

  [[nodiscard]] Result<int64_t> count(const std::string& where) const {
    SACCADE_ASSIGN(const Json data,
                   client().ask(fmt::format("{{Aggregate{{x:{}{}{{meta{{count}}}}}}}}", name(),
                                            where.empty() ? "" : "(where:" + where + ")")));
    return count_in(member(data, "Aggregate"), "x");
  }
  [[nodiscard]] Result<std::string> stems_of(const std::string& term) const {
    const std::lock_guard lock(mutex);
    if (!stems) {
      SACCADE_ASSIGN(stems, store::WordStems::make());
    }
    SACCADE_ASSIGN(const std::vector<std::string> found, stems->of_term(term));
    return fmt::format("{}", fmt::join(found, " "));
  }
  [[nodiscard]] Result<WordStatistics> statistics(std::span<const std::string> terms,
                                                  std::map<std::string, std::string>& stems_by_term) const;
};

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::filesystem::path& address) {
  auto state = std::make_unique<State>();
  SACCADE_ASSIGN(state->opened, open_class(address));
  if (state->opened.info.settings.late) {
    return fail(ErrorCode::kUnsupported,
                "open collection: {}: rows of late interaction are kept in folders alone", address.string());
  }
  state->text = address;
  SACCADE_ASSIGN(state->items, state->count("").in("open collection"));
  return Store(std::move(state));
}

bool Store::exists(const std::filesystem::path& address) {
  const auto opened = open_class(address);
  return opened || opened.error().code != ErrorCode::kNotFound;
}

Result<CollectionInfo> Store::read_info(const std::filesystem::path& address) {
  SACCADE_ASSIGN(Opened opened, open_class(address));
  return std::move(opened.info);
}

const std::filesystem::path& Store::folder() const {
  return state_->text;
}
const CollectionInfo& Store::info() const {
  return state_->opened.info;
}
int64_t Store::item_count() const {
  return state_->items;
}
std::string Store::path_here(const std::string& stored) const {
  return local_path(state_->client().address(), stored);
}
std::string Store::engine() const {
  return "Weaviate " + state_->opened.version;
}

Status Store::check_files() const {
  SACCADE_TRY(state_->client().call({.path = "/v1/.well-known/ready"}));
  return {};
}

Result<WholeItem> Store::whole(int64_t id) const {
  return whole_of_id(state_->client(), id, true);
}
Result<Item> Store::item(int64_t id) const {
  SACCADE_ASSIGN(WholeItem whole, whole_of_id(state_->client(), id, false));
  return std::move(whole.item);
}
Result<ItemFacts> Store::facts(int64_t id) const {
  auto whole = whole_of_id(state_->client(), id, false);
  if (whole) return std::move(whole->facts);
  if (whole.error().code == ErrorCode::kNotFound) return ItemFacts{};
  return fail(std::move(whole).error());
}

Result<Item> Store::item_of_path(const std::filesystem::path& path) const {
  const std::string uuid = uuid_of(state_->name(), stored_path(state_->client().address(), path.string()));
  SACCADE_ASSIGN(std::vector<WholeItem> found, items_where(state_->client(), any_of_ids({uuid}), 1, false));
  if (found.empty()) return fail(ErrorCode::kNotFound, "{}: no such item", path.string());
  return std::move(found.front().item);
}

Status Store::for_each_item(const std::function<Status(const Item&)>& visit) const {
  return for_each_object(state_->client(), state_->name(), [&](const Json& object) -> Status {
    SACCADE_ASSIGN(const WholeItem whole, item_of(state_->client().address(), object));
    return visit(whole.item);
  });
}

Status Store::for_each_row(const RowVisitor& visit) const {
  return for_each_object(state_->client(), state_->name(), [&](const Json& object) -> Status {
    SACCADE_ASSIGN(const WholeItem whole, item_of(state_->client().address(), object));
    SACCADE_ASSIGN(const std::vector<float> row, row_of(member(object, "properties")));
    if (std::ssize(row) != info().checkpoint.dim) {
      return fail(ErrorCode::kBadData, "{}: a row of {} values, expected {}", whole.item.path, row.size(),
                  info().checkpoint.dim);
    }
    return visit(whole.item, whole.facts, row);
  });
}

Result<LookedAt> Store::looked(int64_t /*most*/) const {
  LookedAt looked;
  SACCADE_ASSIGN(looked.pictures, state_->count(grain_from(0)));
  SACCADE_ASSIGN(looked.photographs, state_->count(grain_from(kPhotographGrain)));
  return looked;
}

Result<std::vector<RemovedPicture>> Store::removed() const {
  std::vector<RemovedPicture> removed;
  SACCADE_TRY(for_each_note(
      state_->client(), [&](const std::string& kind, const std::string& path, const Json& note) -> Status {
        if (kind != "removed") return {};
        SACCADE_ASSIGN(const auto hash, json_field<std::string>(note, "hash"));
        removed.push_back({path, hash});
        return {};
      }));
  std::ranges::sort(removed, {}, &RemovedPicture::path);
  return removed;
}

Result<std::vector<Failure>> Store::failures() const {
  std::vector<Failure> failures;
  SACCADE_TRY(for_each_note(
      state_->client(), [&](const std::string& kind, const std::string& path, const Json& note) -> Status {
        if (kind == "failure") failures.push_back(failure_of_note(path, note));
        return {};
      }));
  std::ranges::sort(failures, {}, &Failure::path);
  return failures;
}

Result<std::string> Store::why_empty(const Filter& filter) const {
  SACCADE_ASSIGN(const int64_t any, state_->count(where_of(filter.tree).graphql));
  if (any > 0) return std::string();
  SACCADE_ASSIGN(const int64_t all, state_->count(""));
  if (all == 0) return std::string("the collection is empty");
  std::string why;
  for (const Filter::Condition& condition : filter.conditions) {
    SACCADE_ASSIGN(const Filter one, parse_filter(condition.text));
    SACCADE_ASSIGN(const int64_t met, state_->count(where_of(one.tree).graphql));
    if (met == 0) why += fmt::format("{}no image meets {}", why.empty() ? "" : "; ", condition.text);
  }
  if (why.empty()) why = "each condition is met by some image, all of them together by none";
  return why;
}

Result<std::vector<FieldValue>> Store::values_of(std::string_view field, int64_t /*most*/) const {
  return fail(ErrorCode::kUnsupported, "values of \"{}\" are not counted in a Weaviate cluster", field);
}

Result<CollectionSummary> Store::summary() const {
  SACCADE_ASSIGN(const Json data,
                 state_->client().ask(fmt::format(
                     "{{Aggregate{{all:{0}{{meta{{count}} size{{sum}}}} "
                     "captions:{0}(where:{1}){{meta{{count}}}} "
                     "looked:{0}(where:{2}){{meta{{count}}}} photographs:{0}(where:{3}){{meta{{count}}}} "
                     "formats:{0}(groupBy:[\"format\"]){{groupedBy{{value}} meta{{count}}}}}}}}",
                     state_->name(), not_met(equals("caption", kept_text(""))), grain_from(0),
                     grain_from(kPhotographGrain))));
  const Json& found = member(data, "Aggregate");
  CollectionSummary summary;
  SACCADE_ASSIGN(summary.items, count_in(found, "all"));
  SACCADE_ASSIGN(summary.captions, count_in(found, "captions"));
  SACCADE_ASSIGN(summary.looked_at, count_in(found, "looked"));
  SACCADE_ASSIGN(summary.photographs, count_in(found, "photographs"));
  summary.rows = summary.items;
  summary.distinct_contents = kUnknownState;
  summary.row_bytes = summary.items * info().checkpoint.dim * static_cast<int64_t>(sizeof(float));
  const Json& sum = member(member(member(found, "all").front(), "size"), "sum");
  const double bytes = sum.is_number() ? sum.get<double>() : 0;
  if (bytes > 0 && bytes < 0x1p63) summary.file_bytes = static_cast<int64_t>(bytes);
  if (member(found, "formats").is_array()) {
    for (const Json& group : member(found, "formats")) {
      SACCADE_ASSIGN(const std::string value, json_field<std::string>(member(group, "groupedBy"), "value"));
      SACCADE_ASSIGN(const int64_t items, json_field<int64_t>(member(group, "meta"), "count"));
      summary.formats[value.size() < 2 ? value : value.substr(1, value.size() - 2)] += items;
    }
  }
  SACCADE_TRY(for_each_note(state_->client(), [&](const std::string& kind, const std::string&, const Json&) {
    ++(kind == "failure" ? summary.failures : summary.removed);
    return Status{};
  }));
  return summary;
}

Status Store::refresh() {
  SACCADE_ASSIGN(Opened opened, open_class(state_->text));
  const bool other = opened.client->address().name != state_->name();
  // A client keeps its connections.
  if (other) state_->opened = std::move(opened);
  const int64_t before = state_->items;
  SACCADE_ASSIGN(state_->items, state_->count(""));
  constexpr int64_t kGrowth = 2;
  const std::lock_guard lock(state_->mutex);
  if (other || state_->items > kGrowth * before || kGrowth * state_->items < before) state_->sample = nullptr;
  return {};
}

Result<std::shared_ptr<const Matrix<float>>> Store::sample() const {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->sample) return state_->sample;
  }
  SACCADE_ASSIGN(const Json page, state_->client().call({.path = fmt::format("/v1/objects?class={}&limit={}",
                                                                             state_->name(), kSampleRows)}));
  const Json& objects = member(page, "objects");
  if (!objects.is_array()) return fail(ErrorCode::kBadData, "Weaviate's answer has no list of objects");
  std::vector<std::vector<float>> rows;
  for (const Json& object : objects) {
    SACCADE_ASSIGN(rows.emplace_back(), row_of(member(object, "properties")));
    if (std::ssize(rows.back()) != info().checkpoint.dim) rows.pop_back();
  }
  auto sample = std::make_shared<Matrix<float>>(std::ssize(rows), info().checkpoint.dim);
  for (int64_t row = 0; row < std::ssize(rows); ++row) {
    std::ranges::copy(rows[static_cast<size_t>(row)], sample->row(row).begin());
  }
  const std::lock_guard lock(state_->mutex);
  state_->sample = std::move(sample);
  return state_->sample;
}

Result<std::vector<WholeItem>> Store::sample_items(int64_t most) const {
  std::vector<WholeItem> items;
  const auto add = [&](const Json& object) -> Status {
    SACCADE_ASSIGN(WholeItem whole, item_of(Address(), object));
    SACCADE_ASSIGN(whole.values, row_of(member(object, "properties")).in(whole.item.path));
    if (std::ssize(whole.values) == info().checkpoint.dim) items.push_back(std::move(whole));
    return {};
  };
  SACCADE_TRY(for_each_object(state_->client(), state_->name(), add, most).in("sample of the items"));
  return items;
}

Status Store::keep(std::string_view name, std::string_view bytes) const {
  const Json note = {{"bytes", encode_base64(bytes)}};
  const Json object = {
      {"class", state_->notes()},
      {"id", state_->kept_uuid(name)},
      {"properties", {{"kind", kept_text(kKeptKind)}, {"path", name}, {"note", dump_json(note)}}}};
  return send_objects(state_->client(), {object}).in(fmt::format("keep {}", name));
}

Result<std::string> Store::kept(std::string_view name) const {
  const auto read = [&]() -> Result<std::string> {
    SACCADE_ASSIGN(const Json object,
                   state_->client().call(
                       {.path = fmt::format("/v1/objects/{}/{}", state_->notes(), state_->kept_uuid(name)),
                        .may_lack = true}));
    if (object.is_null()) return fail(ErrorCode::kNotFound, "nothing is kept under this name");
    SACCADE_ASSIGN(const std::string text, json_field<std::string>(member(object, "properties"), "note"));
    SACCADE_ASSIGN(const Json note, parse_json(text));
    SACCADE_ASSIGN(const std::string bytes, json_field<std::string>(note, "bytes"));
    return decode_base64(bytes);
  };
  return read().in(std::string(name));
}

Result<std::string> Store::kept_state(std::string_view name) const {
  SACCADE_ASSIGN(const Json data,
                 state_->client().ask(
                     fmt::format("{{Get{{x:{}(where:{} limit:1){{_additional{{lastUpdateTimeUnix}}}}}}}}",
                                 state_->notes(), any_of_ids({state_->kept_uuid(name)}))));
  const Json& found = member(member(data, "Get"), "x");
  if (!found.is_array() || found.empty()) return std::string();
  return json_field_or<std::string>(member(found.front(), "_additional"), "lastUpdateTimeUnix", "");
}

// Counts the images that have each term. All words of a term must be there, side by side or not.
Result<WordStatistics> Store::State::statistics(std::span<const std::string> terms,
                                                std::map<std::string, std::string>& stems_by_term) const {
  WordStatistics statistics;
  std::string query = fmt::format("{{Aggregate{{all:{}{{meta{{count}}}}", name());
  std::vector<std::string> asked;
  for (const std::string& term : terms.first(std::min<size_t>(terms.size(), kMostCounted))) {
    if (stems_by_term.contains(term)) continue;
    SACCADE_ASSIGN(const std::string of_term, stems_of(term));
    stems_by_term.emplace(term, of_term);
    std::string where;
    for (size_t begin = 0; begin < of_term.size();) {
      const size_t end = std::min(of_term.find(' ', begin), of_term.size());
      where = both(where, equals("words", of_term.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (where.empty()) continue;
    query += fmt::format(" t{}:{}(where:{}){{meta{{count}}}}", asked.size(), name(), where);
    asked.push_back(term);
  }
  SACCADE_ASSIGN(const Json data, client().ask(query + "}}"));
  SACCADE_ASSIGN(statistics.items, count_in(member(data, "Aggregate"), "all"));
  for (size_t i = 0; i < asked.size(); ++i) {
    SACCADE_ASSIGN(statistics.pictures[asked[i]], count_in(member(data, "Aggregate"), fmt::format("t{}", i)));
  }
  return statistics;
}

Result<NearestItems> Store::nearest(const NearestQuery& query) const {
  const std::string& name = state_->name();
  const int64_t count = std::min(query.count, kMostResults);
  NearestItems found;
  std::string where;
  if (query.filter != nullptr) {
    Where met = where_of(query.filter->tree);
    where = std::move(met.graphql);
    found.exact = met.exact;
  }
  std::string words;
  if (!query.terms.empty() || !query.counted.empty()) {
    std::map<std::string, std::string> stems;
    std::vector<std::string> all(query.terms.begin(), query.terms.end());
    all.insert(all.end(), query.counted.begin(), query.counted.end());
    SACCADE_ASSIGN(found.words, state_->statistics(all, stems));
    const int64_t common = std::max(store::kFewestCommon, found.words.items / 4);
    for (const std::string& term : query.terms) {
      const auto counted = found.words.pictures.find(term);
      if (counted == found.words.pictures.end() || counted->second == 0 || counted->second > common) continue;
      words += (words.empty() ? "" : " ") + stems[term];
    }
  }
  std::string asked = fmt::format("{{Get{{near:{}(nearVector:{{vector:[{}]}} limit:{}{}){}", name,
                                  row_text(query.row), count, where_argument(where), kFieldsWithRow);
  if (!words.empty()) {
    asked += fmt::format(" words:{}(bm25:{{query:{},properties:[\"words\"]}} limit:{}{}){}", name,
                         graphql_string(words), count, where_argument(where), kFieldsWithRow);
  }
  asked += fmt::format("}} Aggregate{{met:{}{}{{meta{{count}}}}}}}}", name,
                       where.empty() ? "" : "(where:" + where + ")");
  SACCADE_ASSIGN(const Json data, state_->client().ask(std::move(asked)));
  SACCADE_ASSIGN(found.searched, count_in(member(data, "Aggregate"), "met"));
  SACCADE_ASSIGN(found.items, items_in(Address(), member(member(data, "Get"), "near"), true));
  if (!words.empty()) {
    SACCADE_ASSIGN(std::vector<WholeItem> brought,
                   items_in(Address(), member(member(data, "Get"), "words"), true));
    std::set<int64_t> there;
    for (const WholeItem& whole : found.items) there.insert(whole.item.id);
    for (WholeItem& whole : brought) {
      if (there.insert(whole.item.id).second) found.items.push_back(std::move(whole));
    }
  }
  // Fewer than were asked for do not show it: a node may give less, and an index of vectors may lag behind its objects.
  found.complete = std::ssize(found.items) >= found.searched;
  return found;
}

Result<NearestItems> Store::newest(const Filter* filter, int64_t count) const {
  NearestItems found;
  std::string where;
  if (filter != nullptr) {
    Where met = where_of(filter->tree);
    where = std::move(met.graphql);
    found.exact = met.exact;
  }
  count = std::min(count, kMostResults);
  SACCADE_ASSIGN(
      const Json data,
      state_->client().ask(fmt::format(
          "{{Get{{x:{0}(limit:{1} sort:[{{path:[\"date\"],order:desc}},{{path:[\"hash\"],order:asc}}]{2}){3}}} "
          "Aggregate{{met:{0}{4}{{meta{{count}}}}}}}}",
          state_->name(), count, where_argument(sorted_where(where)), kFields,
          where.empty() ? "" : "(where:" + where + ")")));
  SACCADE_ASSIGN(found.searched, count_in(member(data, "Aggregate"), "met"));
  SACCADE_ASSIGN(found.items, items_in(Address(), member(member(data, "Get"), "x"), false));
  found.complete = std::ssize(found.items) >= found.searched;
  return found;
}

}  // namespace saccade::weaviate
