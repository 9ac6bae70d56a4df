#include "saccade/hub/address_range.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <string>
#include <vector>

namespace saccade::hub {
namespace {

constexpr int kV4Bits = 96;  // before an address of IPv4

AddressRange range(std::string_view text) {
  return AddressRange::parse(text).value();
}

const AddressRange& all_v4() {
  static const AddressRange all = range("0.0.0.0/0");
  return all;
}

// IANA's registries of special-purpose addresses, and multicast.
const std::vector<AddressRange>& special() {
  static const std::vector<AddressRange> all = [] {
    std::vector<AddressRange> ranges;
    for (const char* text : {
             "0.0.0.0/8",        // this network
             "10.0.0.0/8",       // private
             "100.64.0.0/10",    // shared by a carrier's customers
             "127.0.0.0/8",      // loopback
             "169.254.0.0/16",   // link-local, and clouds' metadata
             "172.16.0.0/12",    // private
             "192.0.0.0/24",     // protocols
             "192.0.2.0/24",     // documentation
             "192.88.99.0/24",   // relays of 6to4
             "192.168.0.0/16",   // private
             "198.18.0.0/15",    // measurements
             "198.51.100.0/24",  // documentation
             "203.0.113.0/24",   // documentation
             "224.0.0.0/4",      // multicast
             "240.0.0.0/4",      // reserved, and broadcast
             "2001::/23",        // protocols, Teredo among them
             "2001:db8::/32",    // documentation
             "2002::/16",        // 6to4
             "3fff::/20",        // documentation
         }) {
      ranges.push_back(range(text));
    }
    return ranges;
  }();
  return all;
}

}  // namespace

std::optional<IpAddress> ip_address(std::string_view text) {
  const std::string terminated(text);
  IpAddress address = {};
  if (::inet_pton(AF_INET6, terminated.c_str(), address.data()) == 1) return address;
  address[10] = address[11] = 0xFF;
  if (::inet_pton(AF_INET, terminated.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

Result<AddressRange> AddressRange::parse(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::kUsage,
                "\"{}\" is no range of addresses: 10.0.0.0/8, fd00::/8 and 192.168.0.7 are", text);
  };
  const size_t slash = std::min(text.find('/'), text.size());
  const auto address = ip_address(text.substr(0, slash));
  if (!address) return wrong();
  AddressRange range;
  range.first_ = *address;
  const bool v4 = text.find(':') == std::string_view::npos;
  if (slash == text.size()) return range;
  const std::string_view bits = text.substr(slash + 1);
  const auto [rest, error] = std::from_chars(bits.data(), bits.data() + bits.size(), range.bits_);
  if (bits.empty() || error != std::errc() || rest != bits.data() + bits.size() || range.bits_ < 0 ||
      range.bits_ > (v4 ? 32 : 128)) {
    return wrong();
  }
  if (v4) range.bits_ += kV4Bits;
  return range;
}

bool AddressRange::contains(const IpAddress& address) const {
  for (int bit = 0; bit < bits_; bit += 8) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int unused = std::max(0, bit + 8 - bits_);
    if ((address[byte] ^ first_[byte]) >> unused != 0) return false;
  }
  return true;
}

bool AddressRange::is_v4() const {
  return bits_ >= kV4Bits && all_v4().contains(first_);
}

bool is_loopback(std::string_view address) {
  static const AddressRange v4 = range("127.0.0.0/8");
  static const AddressRange v6 = range("::1");
  const auto parsed = ip_address(address);
  return parsed && (v4.contains(*parsed) || v6.contains(*parsed));
}

bool is_public(const IpAddress& address) {
  static const AddressRange translated = range("64:ff9b::/96");
  static const AddressRange unicast = range("2000::/3");
  IpAddress meant = address;
  if (translated.contains(address)) {
    meant = {};
    meant[10] = meant[11] = 0xFF;
    std::copy(address.begin() + 12, address.end(), meant.begin() + 12);
  }
  if (!all_v4().contains(meant) && !unicast.contains(meant)) return false;
  return std::ranges::none_of(special(), [&](const AddressRange& one) { return one.contains(meant); });
}

}  // namespace saccade::hub
