// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDER_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDER_HPP

// What a fetcher knows about one holder of the state it wants: what was asked of it, how quickly it answers, and how far it
// can be relied on. Requests are answered in order, so a holder is overdue when nothing at all came from it for too long.

#include <causeway/core/clock.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// How many requests to keep out at one holder, and how long it may be silent. With n requests out, an answer that takes t
/// tells a rate of n / t; that many in the time of the quickest answer fill the line (Little's law). The window is twice
/// that and one more, so it doubles per trip until answers begin to queue, and little is lost when the holder turns slow.
class transfer_pace {
 public:
  static constexpr unsigned first_window = 4;
  static constexpr unsigned least_window = 2;  // one on the line while the next is asked for

  explicit transfer_pace(const transfer_options& options) : most_{options.max_window}, gaps_{options.arrival} {}

  /// A chunk came `gap` after the holder could begin with it.
  void arrived(duration gap) noexcept { gaps_.observe(gap); }

  /// It came `latency` after it was asked for as the last of `out` requests.
  CAUSEWAY_DECL void answered(duration latency, unsigned out) noexcept;

  /// Nothing came for so long.
  CAUSEWAY_DECL void overdue(duration waited) noexcept;

  CAUSEWAY_DECL void reconnected() noexcept;

  [[nodiscard]] unsigned window() const noexcept { return window_; }
  [[nodiscard]] bool known() const noexcept { return gaps_.count() > 0; }
  [[nodiscard]] duration patience() const noexcept { return gaps_.patience(); }
  /// How long until a request that is made now, behind `ahead` others, is answered.
  CAUSEWAY_DECL [[nodiscard]] duration answer_in(std::size_t ahead) const noexcept;
  [[nodiscard]] duration gap() const noexcept { return gaps_.mean(); }

 private:
  unsigned most_;
  unsigned window_ = std::min(first_window, most_);
  net::arrival_statistics gaps_;
  std::optional<duration> quickest_;
};

/// One holder. Requests are named by their index; the high bit marks pieces of the manifest.
struct transfer_holder {
  static constexpr std::uint64_t manifest_bit = std::uint64_t{1} << 63U;

  enum class standing : std::uint8_t {
    active,  ///< waited for
    late,    ///< overdue: asked elsewhere, but still welcome
    lost,    ///< overdue twice, or no longer needed: may be asked here again
  };
  struct request {
    time_point sent;
    std::uint64_t serial = 0;  ///< order of asking
    unsigned out = 0;          ///< requests waited for, this one counted
    standing at = standing::active;
    bool again = false;  ///< asked twice: which of the two is answered cannot be told
  };

  CAUSEWAY_DECL transfer_holder(net::peer_id peer, const transfer_options& options);

  net::peer_id id;
  transfer_pace pace;
  std::map<std::uint64_t, request> asked;
  std::vector<std::uint64_t> bad_chunks;
  time_point waiting_since;  ///< of the first active request, the last arrival or the last time it was overdue
  time_point not_before;     ///< after it said that it does not have the state yet
  unsigned active = 0;       ///< requests waited for
  unsigned overdue = 0;      ///< in a row
  unsigned bad = 0;          ///< wrong chunks and manifests
  unsigned retries = 0;
  std::uint64_t bytes = 0;  ///< content received and used
  bool up = false;
  bool listed = false;
  bool gone = false;  ///< said that it does not have the state any more
  bool banned = false;

  /// Can be asked, now or later, if its connection stands.
  [[nodiscard]] bool eligible() const noexcept { return listed && !gone && !banned; }
  [[nodiscard]] bool usable(time_point now) const noexcept { return eligible() && up && not_before <= now; }
  CAUSEWAY_DECL [[nodiscard]] bool waited_for() const noexcept;
  /// Whether asking for `key` would only repeat what is on its way.
  CAUSEWAY_DECL [[nodiscard]] bool expects(std::uint64_t key) const;
  /// 1 for the request that is answered next.
  CAUSEWAY_DECL [[nodiscard]] std::ptrdiff_t place_of(const request& r) const;
  CAUSEWAY_DECL [[nodiscard]] bool gave_bad(std::uint64_t chunk) const;

  CAUSEWAY_DECL void note_asked(std::uint64_t key, std::uint64_t serial, time_point now);

  struct answer {
    bool active = false;  ///< to a request that was waited for
    duration gap{0};      ///< since the holder could begin with it
  };

  /// An answer came. None: it was not asked for.
  CAUSEWAY_DECL std::optional<answer> note_answer(std::uint64_t key, time_point now);

  /// The connection ended: nothing that was asked for will come.
  CAUSEWAY_DECL void disconnected();

  /// No longer waited for here.
  CAUSEWAY_DECL void forget(std::uint64_t key);
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_holder.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDER_HPP
