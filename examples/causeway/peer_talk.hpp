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

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace app {

/// The stage that a peer of a swarm serves.
struct swarm_assignment {
  std::uint32_t stage = 0;
  double seconds = 0;   ///< that a micro-batch takes there; 0: not known yet
  std::string address;  ///< of the membership of its stage

  void write(causeway::net::byte_writer& out) const {
    out.put(stage).put(std::bit_cast<std::uint64_t>(seconds)).put_text(address);
  }
  static swarm_assignment read(causeway::net::byte_reader& in) {
    swarm_assignment s;
    s.stage = in.get<std::uint32_t>();
    s.seconds = std::bit_cast<double>(in.get<std::uint64_t>());
    if (!(s.seconds >= 0) || !std::isfinite(s.seconds)) in.refuse();
    s.address = in.get_text(longest_address);
    return s;
  }
  static constexpr std::size_t longest_address = 256;
};

/// What a newcomer is told.
struct run_welcome {
  std::uint64_t text_hash = 0;                  ///< of the text and how it is cut into tokens
  std::string settings{};                       ///< TOML
  std::vector<swarm_assignment> assignments{};  ///< of the peers in reach, where the run is a swarm

  static constexpr std::size_t longest = std::size_t{64} << 10U;
  static constexpr std::uint32_t most_assignments = 1024;

  [[nodiscard]] std::vector<std::byte> encode(std::byte kind) const {
    const auto told = static_cast<std::uint32_t>(std::min<std::size_t>(assignments.size(), most_assignments));
    causeway::net::byte_writer out;
    out.put(static_cast<std::uint8_t>(kind)).put(text_hash).put_text(settings).put(told);
    for (std::uint32_t i = 0; i < told; ++i) assignments[i].write(out);
    return std::move(out).take();
  }
  static causeway::result<run_welcome> decode(std::span<const std::byte> message) {
    causeway::net::byte_reader in{message};
    (void)in.get<std::uint8_t>();
    run_welcome w;
    w.text_hash = in.get<std::uint64_t>();
    const auto text = in.get_bytes(longest);
    w.settings.assign(reinterpret_cast<const char*>(text.data()), text.size());
    const auto told = in.get<std::uint32_t>();
    if (told > most_assignments) in.refuse();
    for (std::uint32_t i = 0; i < told && in.ok(); ++i) w.assignments.push_back(swarm_assignment::read(in));
    CAUSEWAY_TRY(in.finish("welcome"));
    return w;
  }
};

/// One per peer. All members but `linger` with the fabric's lock held.
class peer_talk {
 public:
  static constexpr std::byte question{0x90};
  static constexpr std::byte answer{0x91};
  static constexpr std::byte through{0x92};     ///< needs nothing any more
  static constexpr std::byte assignment{0x93};  ///< a swarm_assignment: the first word of every peer of a swarm

  explicit peer_talk(run_welcome w = {}) : welcome_{std::move(w)} {}

  void hear(causeway::net::fabric& over, causeway::net::peer_index link, std::span<const std::byte> message) {
    if (message.front() == question) over.post(link, welcome_.encode(answer));
    if (message.front() == through) through_.insert(link);
    heard_[link] = over.now();
  }

  /// Says this to all peers within reach.
  static void tell(causeway::net::fabric& over, const std::vector<std::byte>& message) {
    for (causeway::net::peer_index link = 0; link < most_links; ++link) {
      if (over.is_up(link)) over.post(link, message);
    }
  }

  /// What newcomers are told from now on.
  void assignments(std::vector<swarm_assignment> all) { welcome_.assignments = std::move(all); }
  [[nodiscard]] const std::vector<swarm_assignment>& assignments() const noexcept { return welcome_.assignments; }

  [[nodiscard]] bool somebody_is_through() const noexcept { return !through_.empty(); }

  /// Blocks until every peer within reach is through, too: whoever is behind may need our state. One that says nothing for
  /// `patience`, while no state leaves here either (`bytes_sent`), is waited for no longer: it may be a stranger.
  causeway::result<void> linger(causeway::net::fabric& over, causeway::duration patience,
                                const std::function<std::uint64_t()>& bytes_sent, const causeway::log_sink& log) {
    std::size_t waiting = 0;
    const auto done = [&] { return (waiting = tell_all(over, patience)) == 0; };
    const causeway::duration pause = std::min<causeway::duration>(patience / 4, look_every);
    causeway::duration said_after = std::min<causeway::duration>(patience / 2, std::chrono::seconds{5});
    causeway::time_point now;
    over.locked([&] { now = served_ = over.now(); });
    causeway::time_point said = now;
    for (std::uint64_t sent = bytes_sent();;) {
      CAUSEWAY_ASSIGN(const bool all, over.block(done, now + pause));
      if (all) return {};
      over.locked([&] { now = over.now(); });
      const std::uint64_t before = std::exchange(sent, bytes_sent());
      if (sent - before > small_talk) over.locked([&] { served_ = now; });
      if (now - said < said_after) continue;
      said = now;
      said_after *= 2;
      log(causeway::severity::info, "through; staying for " + std::to_string(waiting) + " peers that are not, for " +
                                        std::to_string(static_cast<int>(causeway::seconds(patience))) +
                                        " s after their last word");
    }
  }

 private:
  static constexpr causeway::net::peer_index most_links = 4096;
  static constexpr std::chrono::seconds look_every{1};
  static constexpr std::uint64_t small_talk = std::uint64_t{64} << 10U;  ///< bytes a look that are no state

  // How many peers are up, not through, and worth waiting for.
  std::size_t tell_all(causeway::net::fabric& over, causeway::duration patience) {
    std::size_t waiting = 0;
    for (causeway::net::peer_index link = 0; link < most_links; ++link) {
      if (!over.is_up(link)) {
        told_.erase(link);
        through_.erase(link);  // its next process may not be
        heard_.erase(link);
        continue;
      }
      if (told_.insert(link).second) over.post(link, {through});
      const causeway::time_point heard = std::max(heard_.try_emplace(link, over.now()).first->second, served_);
      if (!through_.contains(link) && over.now() - heard < patience) ++waiting;
    }
    return waiting;
  }

  run_welcome welcome_;
  std::set<causeway::net::peer_index> told_;
  std::set<causeway::net::peer_index> through_;
  std::map<causeway::net::peer_index, causeway::time_point> heard_;  ///< when it last said something to the program
  causeway::time_point served_;                                      ///< when state last left this peer
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PEER_TALK_HPP
