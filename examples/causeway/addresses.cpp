// SPDX-License-Identifier: Apache-2.0
#include "addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace net = causeway::net;
using address_list = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  }
  return text;
}

bool is_link_local(const std::string& address) { return address.starts_with("fe80:") || address.starts_with("169.254."); }

// Of all interfaces that are up, loopback included.
std::vector<std::string> all_addresses(bool with_loopback) {
  ifaddrs* first = nullptr;
  std::vector<std::string> found;
  if (getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list{first, &freeifaddrs};
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & unsigned{IFF_UP}) == 0) continue;
    if (!with_loopback && (i->ifa_flags & unsigned{IFF_LOOPBACK}) != 0) continue;
    const std::string address = text_of(i->ifa_addr);
    if (!address.empty()) found.push_back(address);
  }
  return found;
}

address_list resolve(const net::endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

// Connecting a datagram socket chooses a way and sends nothing.
std::string source_towards(const addrinfo& other) {
  const int fd = socket(other.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const bool found = connect(fd, other.ai_addr, other.ai_addrlen) == 0 && getsockname(fd, address, &length) == 0;
  close(fd);
  return found ? text_of(address) : std::string{};
}

}  // namespace

causeway::result<std::string> address_towards(const net::endpoint& other) {
  const address_list found = resolve({other.host, other.port == 0 ? std::uint16_t{1} : other.port});
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    const std::string source = source_towards(*at);
    if (!source.empty()) return source;
  }
  return fail(errc::unreachable, other.text(),
              found ? "no network of this machine leads there; is it up?" : "there is no machine of that name; check it");
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found = all_addresses(false);
  std::erase_if(found, is_link_local);
  std::vector<std::string> outward;  // addresses that are for documentation: nobody has them
  for (const char* far : {"192.0.2.1", "2001:db8::1"}) {
    if (const auto source = address_towards({far, 9})) outward.push_back(*source);
  }
  const auto rank = [&](const std::string& address) {
    const bool leads_out = std::find(outward.begin(), outward.end(), address) != outward.end();
    return (address.find(':') == std::string::npos ? 0 : 2) + (leads_out ? 0 : 1);
  };
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return found;
}

bool is_own_address(const std::string& host) {
  const std::vector<std::string> own = all_addresses(true);
  const address_list found = resolve({host, 9});
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    if (std::find(own.begin(), own.end(), text_of(at->ai_addr)) != own.end()) return true;
  }
  return false;
}

std::vector<std::string> reachable_at(const net::endpoint& bound, const std::string& announced) {
  if (const auto whole = net::parse_endpoint(announced)) return {whole->text()};
  if (!announced.empty()) return {net::endpoint{announced, bound.port}.text()};
  std::vector<std::string> all;
  if (is_any_address(bound.host)) {
    for (const std::string& host : own_addresses()) all.push_back(net::endpoint{host, bound.port}.text());
    if (all.empty()) all.push_back(net::endpoint{"127.0.0.1", bound.port}.text());
  }
  if (all.empty()) all.push_back(bound.text());
  return all;
}

std::string announcement(const net::endpoint& bound, const std::string& announced) {
  if (!announced.empty() || !is_any_address(bound.host)) return announced;
  const auto own = own_addresses();
  return own.empty() ? std::string{"127.0.0.1"} : own.front();
}

std::string join_lines(const std::vector<std::string>& addresses, const std::string& flags) {
  std::string text = "  causeway join " + addresses.front() + flags + "\n";
  for (std::size_t i = 1; i < addresses.size(); ++i)
    text += (i == 1 ? "\nor, where that is not reached, at " : ", ") + addresses[i];
  return text + "\n";
}

bool is_any_address(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace app
