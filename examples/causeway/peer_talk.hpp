// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PEER_TALK_HPP
#define CAUSEWAY_EXAMPLES_PEER_TALK_HPP

// What peers of this program tell each other besides what the library's membership says: the settings of the run, to
// whoever asks, and that they are through.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

/// What a newcomer is told.
struct run_welcome {
  std::uint64_t text_hash = 0;  ///< of the text and how it is cut into tokens
  std::string settings;         ///< TOML

  static constexpr std::size_t longest = std::size_t{64} << 10U;

  [[nodiscard]] std::vector<std::byte> encode(std::byte kind) const {
    causeway::net::byte_writer out;
    out.put(static_cast<std::uint8_t>(kind)).put(text_hash).put_text(settings);
    return std::move(out).take();
  }
  static causeway::result<run_welcome> decode(std::span<const std::byte> message) {
    causeway::net::byte_reader in{message};
    (void)in.get<std::uint8_t>();
    run_welcome w;
    w.text_hash = in.get<std::uint64_t>();
    const auto text = in.get_bytes(longest);
    w.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
    CAUSEWAY_TRY(in.finish("welcome"));
    return w;
  }
};

/// One per peer. All members but `linger` with the fabric's lock held.
class peer_talk {
 public:
  static constexpr std::byte question{0x90};
  static constexpr std::byte answer{0x91};
  static constexpr std::byte through{0x92};  ///< needs nothing any more

  explicit peer_talk(run_welcome w = {}) : welcome_{std::move(w)} {}

  void hear(causeway::net::fabric& over, causeway::net::peer_index link, std::span<const std::byte> message) {
    if (message.front() == question) over.post(link, welcome_.encode(answer));
    if (message.front() == through) through_.insert(link);
  }

  [[nodiscard]] bool somebody_is_through() const noexcept { return !through_.empty(); }

  /// Blocks until every peer within reach is through, too: whoever is behind may need our state. A peer that stands still
  /// does not count as within reach for long.
  causeway::result<void> linger(causeway::net::fabric& over, const causeway::log_sink& log) {
    std::size_t waiting = 0;
    const auto done = [&] { return (waiting = tell_all(over)) == 0; };
    for (causeway::duration patience = std::chrono::seconds{5};; patience *= 2) {
      causeway::time_point until;
      over.locked([&] { until = over.now() + patience; });
      CAUSEWAY_ASSIGN(const bool all, over.block(done, until));
      if (all) return {};
      log(causeway::severity::info, "through; staying for " + std::to_string(waiting) + " peers that are not");
    }
  }

 private:
  static constexpr causeway::net::peer_index most_links = 4096;

  // How many peers are up and not through.
  std::size_t tell_all(causeway::net::fabric& over) {
    std::size_t waiting = 0;
    for (causeway::net::peer_index link = 0; link < most_links; ++link) {
      if (!over.is_up(link)) {
        told_.erase(link);
        through_.erase(link);  // its next process may not be
        continue;
      }
      if (told_.insert(link).second) over.post(link, {through});
      if (!through_.contains(link)) ++waiting;
    }
    return waiting;
  }

  run_welcome welcome_;
  std::set<causeway::net::peer_index> told_;
  std::set<causeway::net::peer_index> through_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PEER_TALK_HPP
