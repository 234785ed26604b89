// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP
#define CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP

// One peer's part in the membership of a run: a pure state machine. Events go in, effects come out; it has no threads, no
// clock and does no I/O, so that it runs unchanged over TCP and in a simulator. docs/design/membership.md has the protocol
// and the reasons why no round is ever committed twice.

#include <causeway/core/error.hpp>
#include <causeway/membership/situation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership {

/// Thread safety: none; the fabric's lock serves. Cost of a call: O(n log n) at most; memory O(n).
class protocol {
 public:
  /// `record`: what the last process persisted, or fresh_record. `fx` must outlive this object.
  protocol(options o, durable_record record, effects& fx) : options_{std::move(o)}, durable_{std::move(record)}, fx_{&fx} {}
  protocol(const protocol&) = delete;
  protocol& operator=(const protocol&) = delete;

  // ---- from the network --------------------------------------------------------------------------------------------

  /// The first peer of a new run: commits round 0 with itself as the only member. It holds that state.
  void found(std::uint64_t state_hash, time_point now);
  /// Looks for the run at these addresses and at those it remembers, until it finds it. Also after a restart.
  void join(const std::vector<std::string>& addresses, time_point now);
  void peer_up(net::peer_id peer, const std::string& address, time_point now);
  void peer_down(net::peer_id peer, const std::string& why, time_point now);
  void unreachable(const std::string& address, const std::string& why, time_point now);
  void message(net::peer_id from, std::span<const std::byte> bytes, time_point now);
  void wake(time_point now);

  // ---- from the trainer ----------------------------------------------------------------------------------------------

  /// This peer has the full state of a committed round: after a transfer or a restart.
  void holds(std::uint64_t round, std::uint64_t state_hash, time_point now);
  /// This peer can take part in `round`, on top of `parent`, with so many samples. Holds until the round is committed.
  void ready(std::uint64_t round, std::uint64_t parent, std::uint64_t samples, time_point now);
  /// The candidate state of `current` (exchange or adopt) is durable and has this hash. Ignored if the attempt is over.
  void voted(ballot at, std::uint64_t round, std::uint64_t state_hash, time_point now);
  /// The exchange (or the fetch of an adopt) failed; `suspects` are the peers whose links did it, none: this peer itself.
  void failed(ballot at, errc why, const std::vector<net::peer_id>& suspects, time_point now);
  /// Takes part in one more round with what it has trained, and is out with that commit (situation::left). Call ready too.
  void leave(time_point now);

  // ---- to look at ------------------------------------------------------------------------------------------------------

  [[nodiscard]] const situation& now_what() const noexcept { return situation_; }
  /// After the newest commit known.
  [[nodiscard]] const ledger& samples() const noexcept { return durable_.samples; }
  [[nodiscard]] const durable_record& durable() const noexcept { return durable_; }
  [[nodiscard]] net::peer_id self() const noexcept { return durable_.self; }
  /// 0: none known.
  [[nodiscard]] net::peer_id leader() const noexcept;
  [[nodiscard]] std::uint64_t rejected(reject_reason why) const noexcept;
  /// A few lines for people: role, term, who is waited for and since when.
  [[nodiscard]] std::string describe(time_point now) const;

 private:
  options options_;
  durable_record durable_;
  effects* fx_;
  situation situation_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_PROTOCOL_HPP
