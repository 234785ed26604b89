// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_HALF_OPEN_HPP
#define CAUSEWAY_NET_HALF_OPEN_HPP

// Connections of strangers, from the moment they are accepted until they become something or go. There is room for a fixed
// number of them. When it is used up a newcomer is let in all the same and another one goes: of those that have not said
// who they are, the oldest of the address that holds the most. So a flood pushes itself out and not the peer that dials in
// the middle of it. Pure bookkeeping without sockets.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// `Key` names a connection; it is copied and compared. Not thread-safe: its owner locks.
template <class Key>
class half_open {
 public:
  explicit half_open(std::size_t most) : most_{std::max<std::size_t>(most, 1)} {}

  /// A connection from `source` came. Whom to send away for it, if there is no room. O(n log n) in a flood, else O(1).
  std::optional<Key> enter(Key key, std::string source) {
    std::optional<Key> goes;
    if (entries_.size() >= most_) goes = expel();
    entries_.push_back({std::move(key), std::move(source)});
    return goes;
  }

  /// It has said who it is, in our words: it goes only when nobody silent is left.
  void introduce(const Key& key) {
    for (entry& e : entries_) {
      if (e.key == key) e.introduced = true;
    }
  }

  /// It is a stranger no more, or gone.
  void leave(const Key& key) {
    std::erase_if(entries_, [&](const entry& e) { return e.key == key; });
  }

  /// Takes out the one that is to go first. Null when there is nobody.
  std::optional<Key> expel() {
    if (entries_.empty()) return std::nullopt;
    const bool silent = std::any_of(entries_.begin(), entries_.end(), [](const entry& e) { return !e.introduced; });
    const auto may_go = [silent](const entry& e) { return !silent || !e.introduced; };
    std::map<std::string_view, std::size_t> held;
    for (const entry& e : entries_) held[e.source] += may_go(e) ? 1 : 0;
    std::size_t most = 0;
    for (const auto& [source, count] : held) most = std::max(most, count);
    const auto first =
        std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return may_go(e) && held[e.source] == most; });
    Key key = std::move(first->key);
    entries_.erase(first);
    return key;
  }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct entry {
    Key key;
    std::string source;
    bool introduced = false;
  };

  std::size_t most_;
  std::vector<entry> entries_;  // oldest first
};

// What is written about connections that were refused or dropped before they became a link. Anybody can cause such a line,
// as often as he likes; so only a few are written in a while, the others are counted, and the count is told.

/// Not thread-safe: its owner locks.
class stranger_log {
 public:
  static constexpr std::size_t lines = 5;  ///< in full, every `period`
  static constexpr std::chrono::seconds period{10};

  CAUSEWAY_DECL explicit stranger_log(log_sink sink);

  /// Writes the line, or counts it.
  CAUSEWAY_DECL void say(time_point now, std::string line);

  /// Tells how many were counted, when the period is over. Call it once in a while.
  CAUSEWAY_DECL void flush(time_point now);

 private:
  log_sink sink_;
  time_point since_;
  std::size_t said_ = 0;
  std::uint64_t counted_ = 0;
  std::string last_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/half_open.ipp>
#endif

#endif  // CAUSEWAY_NET_HALF_OPEN_HPP
