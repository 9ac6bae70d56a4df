#include "saccade/collection/weaviate/address.h"

#include <algorithm>
#include <charconv>

#include "saccade/core/ascii.h"

namespace saccade::weaviate {
namespace {

constexpr std::string_view kPlain = "weaviate://";
constexpr std::string_view kTls = "weaviates://";

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Status take_option(const std::string& option, Address& address) {
  const size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (name == "root") {
    const size_t end = value.find('=');
    std::string folder = end == std::string::npos ? "" : value.substr(end + 1);
    while (folder.ends_with('/')) folder.pop_back();
    const std::string root = value.substr(0, end);
    if (root.empty() || root.find('/') != std::string::npos || !folder.starts_with('/')) {
      return fail(ErrorCode::kUsage,
                  "a root is \"{}\", expected NAME=/FOLDER: a folder below /, and no \"/\" in the name",
                  value);
    }
    address.roots.emplace_back(root, folder);
    return {};
  }
  int64_t* const number = name == "replicas" ? &address.replicas
                          : name == "shards" ? &address.shards
                                             : nullptr;
  if (number == nullptr) {
    return fail(ErrorCode::kUsage, "an option \"{}\", expected root, replicas or shards", name);
  }
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number);
  if (error != std::errc() || end != value.data() + value.size() || *number < 1 || *number > 10'000) {
    return fail(ErrorCode::kUsage, "{} is \"{}\", expected a number from 1 to 10000", name, value);
  }
  return {};
}

}  // namespace

bool is_address(const std::filesystem::path& text) {
  return text.native().starts_with(kPlain) || text.native().starts_with(kTls);
}

Result<Address> parse_address(const std::filesystem::path& text) {
  const auto parsed = [&]() -> Result<Address> {
    Address address;
    address.text = text;
    std::string_view rest = text.native();
    const bool tls = rest.starts_with(kTls);
    rest.remove_prefix(tls ? kTls.size() : kPlain.size());
    const size_t question = std::min(rest.find('?'), rest.size());
    if (question < rest.size()) {
      for (const std::string& option : split(rest.substr(question + 1), '&')) {
        SACCADE_TRY(take_option(option, address));
      }
    }
    rest = rest.substr(0, question);
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      return fail(ErrorCode::kUsage, "no name of a collection, expected weaviate://HOST:PORT/Name");
    }
    address.name = rest.substr(slash + 1);
    const bool capital = !address.name.empty() && address.name.front() >= 'A' && address.name.front() <= 'Z';
    if (!capital ||
        !std::ranges::all_of(address.name, [](char c) { return is_ascii_alphanumeric(c) || c == '_'; })) {
      return fail(ErrorCode::kUsage,
                  "the collection's name is \"{}\", expected a capital letter and then letters, digits or _",
                  address.name);
    }
    if (address.name.ends_with(kNotes)) {
      return fail(
          ErrorCode::kUsage,
          "the collection's name is \"{}\", but names that end in \"{}\" are of the classes that keep "
          "failures and removals",
          address.name, kNotes);
    }
    for (const std::string& host : split(rest.substr(0, slash), ',')) {
      if (host.empty() || host.find_first_of(" @") != std::string::npos) {
        return fail(ErrorCode::kUsage,
                    "a host is \"{}\", expected HOST or HOST:PORT; a key comes from the environment", host);
      }
      // The colons of an IPv6 address stand within brackets.
      const bool has_port =
          host.find(':', host.find(']') == std::string::npos ? 0 : host.find(']')) != std::string::npos;
      address.endpoints.push_back(fmt::format("{}://{}{}", tls ? "https" : "http", host,
                                              has_port ? ""
                                              : tls    ? ":443"
                                                       : ":8080"));
    }
    return address;
  };
  return parsed().in(text.string());
}

std::string stored_path(const Address& address, std::string_view path) {
  for (const auto& [name, folder] : address.roots) {
    if (path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/') {
      return name + std::string(path.substr(folder.size()));
    }
  }
  return std::string(path);
}

std::string local_path(const Address& address, std::string_view stored) {
  for (const auto& [name, folder] : address.roots) {
    if (stored.starts_with(name) && stored.size() > name.size() && stored[name.size()] == '/') {
      return folder + std::string(stored.substr(name.size()));
    }
  }
  return std::string(stored);
}

}  // namespace saccade::weaviate
