// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MIRROR_LINES_HPP
#define CAUSEWAY_COMM_MIRROR_LINES_HPP

// What the copies of comm::mirrors say to each other, and what one of them knows of the others: how far they are, and
// whether it has to wait for them.

#include <causeway/collective/group_view.hpp>
#include <causeway/comm/hub_line.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

enum class mirror_word : std::uint32_t {
  hello = 1,  ///< where my clock is
  barrier,    ///< what follows has something in it and may take long: do not begin a step without it
  updates,    ///< what is significant of the clock's changes, in the codec's message
  passed_on,  ///< the same of what other hubs told a hub, which is no change of its own, at whatever clock
  done,       ///< nothing more will come
  rests,      ///< I make no steps until my next updates: do not wait for me
};

/// Of a message between two copies. Plain numbers: hostile until checked.
struct mirror_header {
  mirror_word word = mirror_word::updates;
  std::uint32_t reserved = 0;
  std::uint64_t clock = 0;
};

struct mirror_news {
  mirror_word word = mirror_word::hello;
  std::span<const std::byte> updates{};  ///< valid until the line is used again
};

/// One of the others.
struct mirror {
  static constexpr std::uint64_t no_more = std::numeric_limits<std::uint64_t>::max();

  std::unique_ptr<hub_line> line{};  ///< none: it is out of reach
  std::size_t place = 0;             ///< among those who were met together, this peer too
  bool met = false;                  ///< it has said hello
  bool rests = false;                ///< nobody waits for it
  std::uint64_t known = 0;           ///< its clock whose updates are here; `no_more` when it is done
  std::uint64_t announced = 0;       ///< the last of its clocks that a barrier was for

  [[nodiscard]] bool is_done() const noexcept { return known == no_more; }
  /// Whether something of it may have come that was not looked at.
  [[nodiscard]] bool has_arrived() const { return line && !is_done() && line->arrived(); }
  /// Whether a peer at `clock` waits for it before its next step.
  CAUSEWAY_DECL [[nodiscard]] bool holds(std::uint64_t clock, std::uint32_t most_ahead) const;

  CAUSEWAY_DECL void say(mirror_word word, std::uint64_t clock);
  /// Its next message, whose word is checked. `known` is the caller's to move when it has applied updates. Who passes on
  /// may rest.
  CAUSEWAY_DECL result<mirror_news> hear(time_point deadline);
};

/// Those who are told the same.
struct mirror_audience {
  std::vector<float> copy{};  ///< x̄: the parameters as these know them from this peer
  std::vector<mirror> mirrors{};
  bool is_over = false;  ///< nothing more is said to it

  /// Lines to some peers of a transport. No message is longer than `most`.
  CAUSEWAY_DECL void open(net::any_transport& transport, const std::vector<net::peer_index>& peers, std::size_t most);
  /// The same, and they are greeted.
  CAUSEWAY_DECL void meet(net::any_transport& transport, const std::vector<net::peer_index>& peers, std::size_t most,
                          std::uint64_t clock);
  CAUSEWAY_DECL void say(mirror_word word, std::uint64_t clock);
  [[nodiscard]] bool is_done() const {
    return std::all_of(mirrors.begin(), mirrors.end(), [](const mirror& m) { return m.is_done(); });
  }
  [[nodiscard]] bool is_in_reach() const {
    return std::any_of(mirrors.begin(), mirrors.end(), [](const mirror& m) { return m.line != nullptr; });
  }
};

/// Whom a peer tells what it changes: its group; a hub, the first of one, then also the other hubs.
CAUSEWAY_DECL [[nodiscard]] std::vector<collective::peer_group> audiences_of(const collective::region_list& groups,
                                                                             net::peer_index self);

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/mirror_lines.ipp>
#endif

#endif  // CAUSEWAY_COMM_MIRROR_LINES_HPP
