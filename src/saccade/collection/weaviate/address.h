// Addresses of collections in a Weaviate cluster:
//
//   weaviate://HOST:PORT/Name             over HTTP; the port is 8080 where none is named
//   weaviates://HOST:PORT/Name            over TLS; the port is 443 where none is named
//   weaviate://HOST:PORT,HOST:PORT/Name   several nodes of one cluster: the next is asked if one does not answer
//   ...?root=photos=/mnt/photos           files below /mnt/photos are named relative to the root "photos", so that hosts
//                                         may mount it elsewhere; may be repeated
//   ...?replicas=2&shards=6               of a class that is created
//
// Name is a class or an alias. A class name begins with a capital letter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::weaviate {

// Ending of the name of the class that keeps a collection's failures and removals. No collection's name has it.
inline constexpr std::string_view kNotes = "Notes";

struct Address {
  std::vector<std::string> endpoints;  // "http://host:8080"
  std::string name;
  // Names of roots and their folders here. The folder is absolute and has no slash at its end.
  std::vector<std::pair<std::string, std::string>> roots;
  int64_t replicas = 1;
  int64_t shards = 0;          // 0: the cluster's default, one for each node
  std::filesystem::path text;  // the address as it was given
};

// Returns true for a text that begins like an address.
bool is_address(const std::filesystem::path& text);
// Parses an address. kUsage says what is wrong with it.
Result<Address> parse_address(const std::filesystem::path& text);

// Returns the name under which a path is stored: "photos/2024/a.jpg" for a file below the root "photos", else the
// absolute path.
std::string stored_path(const Address& address, std::string_view path);
// Returns the path on this host of a stored name. A name of a root that this host does not have stays as it is.
std::string local_path(const Address& address, std::string_view stored);

}  // namespace saccade::weaviate
