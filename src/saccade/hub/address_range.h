// Ranges of IP addresses, and the test for public addresses. A request for a URL that somebody else chose must
// not reach into this machine's own network.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "saccade/core/error.h"

namespace saccade::hub {

// Sixteen bytes, most significant first; one of IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2).
using IpAddress = std::array<uint8_t, 16>;

// Parses "192.0.2.1" or "2001:db8::1"; `nullopt` for other texts. Zones are not supported.
std::optional<IpAddress> ip_address(std::string_view text);

// The first so many bits are those of an address.
class AddressRange {
 public:
  // Parses "10.0.0.0/8", "fd00::/8", or a single address. kUsage for other texts.
  static Result<AddressRange> parse(std::string_view text);
  [[nodiscard]] bool contains(const IpAddress& address) const;
  // Prefix length in bits; for IPv4 addresses 96 more than was written.
  [[nodiscard]] int bits() const { return bits_; }
  [[nodiscard]] bool is_v4() const;

 private:
  IpAddress first_ = {};
  int bits_ = 128;
};

// Returns true for a text that is an address of this machine's loopback interface: 127.0.0.0/8, ::1, and
// their mapped forms (::ffff:127.0.0.1), in any spelling.
bool is_loopback(std::string_view address);

// Returns true for a public internet address. Excluded are multicast and all ranges of IANA's registries of
// special-purpose addresses (RFC 6890): private, loopback, link-local, shared (RFC 6598), for documentation,
// tests or tunnels, or reserved. An address that represents an IPv4 address (mapped, or translated by RFC
// 6052) is treated like that address.
bool is_public(const IpAddress& address);

}  // namespace saccade::hub
