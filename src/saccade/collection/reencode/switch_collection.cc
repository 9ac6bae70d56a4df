#include "saccade/collection/reencode/switch_collection.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/collection/weaviate/aliases.h"
#include "saccade/collection/weaviate/weaviate_store.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/sync_folder.h"
#include "saccade/core/files/temporary_files.h"

namespace saccade {
namespace {

// Returns the path of a link, whose name may have been given with a slash behind it.
std::filesystem::path link_path(const std::filesystem::path& name) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(name, error).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

bool leads_to(const std::filesystem::path& link, const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::equivalent(link, folder, error) && !error;
}

Result<NameLeads> where_link_leads(const std::filesystem::path& link, const std::filesystem::path& first,
                                   const std::filesystem::path& second) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(link, error);
  if (status.type() == std::filesystem::file_type::not_found) return NameLeads::kNowhere;
  if (!std::filesystem::is_symlink(status)) {
    return fail(ErrorCode::kUsage, "not a symbolic link: name a link that leads to {}, or a new name",
                first.string());
  }
  if (leads_to(link, second)) return NameLeads::kToSecond;
  if (leads_to(link, first)) return NameLeads::kToFirst;
  return fail(ErrorCode::kUsage, "the link leads to {}, and not to {}",
              std::filesystem::read_symlink(link, error).string(), first.string());
}

// Returns the class of an address, an alias resolved; its own name if there is no such class.
Result<std::string> class_name_of(const std::filesystem::path& address) {
  const auto opened = weaviate::open_class(address);
  if (opened) return opened->client->address().name;
  if (opened.error().code != ErrorCode::kNotFound) return fail(opened.error());
  SACCADE_ASSIGN(weaviate::Address parsed, weaviate::parse_address(address));
  return std::move(parsed.name);
}

Result<NameLeads> where_alias_leads(const std::filesystem::path& name, const std::filesystem::path& first,
                                    const std::filesystem::path& second) {
  SACCADE_ASSIGN(const weaviate::Opened cluster, weaviate::open_cluster(name));
  const std::string& alias = cluster.client->address().name;
  SACCADE_ASSIGN(const auto leads, weaviate::class_of_alias(*cluster.client, alias));
  if (!leads) {
    SACCADE_ASSIGN(const Json schema,
                   cluster.client->call({.path = "/v1/schema/" + alias, .may_lack = true}));
    if (schema.is_null()) return NameLeads::kNowhere;
    return fail(ErrorCode::kUsage, "a class has this name: name an alias");
  }
  SACCADE_ASSIGN(const std::string new_class, class_name_of(second));
  if (*leads == new_class) return NameLeads::kToSecond;
  if (weaviate::is_address(first)) {
    SACCADE_ASSIGN(const std::string old_class, class_name_of(first));
    if (*leads == old_class) return NameLeads::kToFirst;
  }
  return fail(ErrorCode::kUsage, "the alias leads to the class {}, and not to {}", *leads, first.string());
}

Status switch_link(const std::filesystem::path& link, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path target = std::filesystem::canonical(folder, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  // A link that was relative stays so: what holds both may be mounted elsewhere.
  const std::filesystem::path before = std::filesystem::read_symlink(link, error);
  if (!error && before.is_relative()) {
    const std::filesystem::path relative = std::filesystem::relative(target, link.parent_path(), error);
    if (!error && !relative.empty()) target = relative;
  }
  remove_temporaries(link);
  const std::filesystem::path fresh = fmt::format("{}.tmp-{}-0", link.string(), ::getpid());
  std::filesystem::create_directory_symlink(target, fresh, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", fresh.string(), error.message());
  std::filesystem::rename(fresh, link, error);
  if (!error) {
    // Before the second collection ends being a copy: after a crash the link must not lead to the first one then.
    sync_folder(link.parent_path());
    return {};
  }
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  return fail(ErrorCode::kIo, "{}", error.message());
}

// The folder is a collection like others from now on.
Status end_copy(const std::filesystem::path& folder) {
  SACCADE_ASSIGN(CollectionInfo info, store::read_info(folder));
  if (info.copy_of.empty()) return {};
  SACCADE_ASSIGN(const Descriptor lock, lock_file(folder / store::kLockName, "writing to this collection"));
  SACCADE_ASSIGN(info, store::read_info(folder));
  info.copy_of.clear();
  return store::write_info(folder, info);
}

}  // namespace

Result<std::filesystem::path> settled_collection(const std::filesystem::path& collection) {
  if (!weaviate::is_address(collection)) {
    std::error_code error;
    std::filesystem::path whole = std::filesystem::canonical(collection, error);
    return error ? collection : whole;
  }
  SACCADE_ASSIGN(const std::string name, class_name_of(collection));
  std::string text = collection.string();
  const size_t begin = text.find('/', text.find("://") + 3) + 1;
  const size_t end = std::min(text.find('?', begin), text.size());
  text.replace(begin, end - begin, name);
  return std::filesystem::path(text);
}

Result<NameLeads> where_name_leads(const std::filesystem::path& name, const std::filesystem::path& first,
                                   const std::filesystem::path& second) {
  const auto found = [&]() -> Result<NameLeads> {
    const bool is_alias = weaviate::is_address(name);
    if (is_alias != weaviate::is_address(second)) {
      return fail(ErrorCode::kUsage, "{} cannot lead to {}", is_alias ? "an alias" : "a link",
                  second.string());
    }
    return is_alias ? where_alias_leads(name, first, second)
                    : where_link_leads(link_path(name), first, second);
  };
  return found().in(name.string());
}

Status switch_name(const std::filesystem::path& name, const std::filesystem::path& first,
                   const std::filesystem::path& second, const std::stop_token& stop) {
  SACCADE_ASSIGN(const NameLeads leads, where_name_leads(name, first, second));
  const auto switched = [&]() -> Status {
    if (weaviate::is_address(name)) {
      if (leads == NameLeads::kToSecond) return {};
      SACCADE_ASSIGN(const std::string class_name, class_name_of(second));
      SACCADE_ASSIGN(const weaviate::Opened cluster, weaviate::open_cluster(name));
      return weaviate::set_alias(*cluster.client, cluster.client->address().name, class_name, stop);
    }
    if (leads != NameLeads::kToSecond) SACCADE_TRY(switch_link(link_path(name), second));
    return end_copy(second);
  };
  return switched().in(name.string());
}

Status check_has_no_alias(const std::filesystem::path& collection) {
  if (!weaviate::is_address(collection)) return {};
  SACCADE_ASSIGN(const weaviate::Opened opened, weaviate::open_class(collection));
  SACCADE_ASSIGN(const auto aliases,
                 weaviate::aliases_of_class(*opened.client, opened.client->address().name));
  if (aliases.empty()) return {};
  return fail(ErrorCode::kMismatch, "{}: the alias {} leads to it, so it is in use: name a new collection",
              collection.string(), aliases.front());
}

}  // namespace saccade
