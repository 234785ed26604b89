// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDERS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDERS_HPP

// All peers that a fetcher is connected with or was told of, and the questions about them together: who is left, who is
// overdue next, and who could bring sooner what another was asked for.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

// What a fetcher knows about one holder of the state it wants: what was asked of it, how quickly it answers, and how far it
// can be relied on. Requests are answered in order, so a holder is overdue when nothing at all came from it for too long.

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

// Which chunks of a wanted state are still to be had, and which of them nobody is being asked for. A missing chunk is free,
// or somebody is being asked for it, or both for a moment when an overdue request counts again.

/// Cost of a call: O(1), but for `take`, which looks past the chunks that do not suit.
class transfer_plan {
 public:
  transfer_plan() = default;

  /// All chunks whose hashes differ are missing.
  CAUSEWAY_DECL transfer_plan(const std::vector<std::uint64_t>& local, const std::vector<std::uint64_t>& wanted);

  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }
  [[nodiscard]] bool is_missing(std::uint64_t chunk) const noexcept { return chunks_[chunk].missing; }
  [[nodiscard]] unsigned askers(std::uint64_t chunk) const noexcept { return chunks_[chunk].askers; }

  /// The first free chunk that `suits`; it is no longer free.
  template <class Suits>
  std::optional<std::uint64_t> take(Suits&& suits) {
    for (auto at = free_.begin(); at != free_.end();) {
      const std::uint64_t chunk = *at;
      if (chunks_[chunk].missing && !suits(chunk)) {
        ++at;
        continue;
      }
      at = free_.erase(at);
      chunks_[chunk].free = false;
      if (chunks_[chunk].missing) return chunk;
    }
    return std::nullopt;
  }

  void asked(std::uint64_t chunk) noexcept { ++chunks_[chunk].askers; }

  /// Somebody is no longer waited for; a missing chunk that nobody is waited for becomes free, ahead of all others.
  CAUSEWAY_DECL void given_up(std::uint64_t chunk);

  CAUSEWAY_DECL void done(std::uint64_t chunk) noexcept;

 private:
  struct state {
    bool missing = false;
    bool free = false;
    std::uint16_t askers = 0;
  };

  std::vector<state> chunks_;
  std::deque<std::uint64_t> free_;
  std::size_t missing_ = 0;
};

class transfer_holders {
 public:
  /// What is left to hope for.
  struct prospects {
    bool eligible = false;      ///< somebody may have the state
    bool within_reach = false;  ///< of those, somebody is connected
    bool answers = false;       ///< of those, somebody was not overdue too often
  };

  CAUSEWAY_DECL explicit transfer_holders(const transfer_options& options);

  [[nodiscard]] auto begin() noexcept { return all_.begin(); }
  [[nodiscard]] auto end() noexcept { return all_.end(); }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

  CAUSEWAY_DECL transfer_holder& known(net::peer_id peer);
  CAUSEWAY_DECL [[nodiscard]] transfer_holder* find(net::peer_id peer);
  CAUSEWAY_DECL void erase(net::peer_id peer);

  /// For the next fetch: who is connected stays known, and nothing else.
  CAUSEWAY_DECL void begin_anew();

  CAUSEWAY_DECL [[nodiscard]] prospects outlook() const;

  /// Why there is nobody left to ask for `round`.
  CAUSEWAY_DECL [[nodiscard]] error none_left(std::uint64_t round, std::uint64_t newest_seen) const;

  template <class F>
  [[nodiscard]] bool any_other_usable(const transfer_holder& h, time_point now, F&& also) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) {
      return entry.first != h.id && entry.second.usable(now) && also(entry.second);
    });
  }

  /// Who is most likely to answer; nullptr: nobody can be asked now.
  CAUSEWAY_DECL [[nodiscard]] transfer_holder* best(time_point now);

  // ---- times --------------------------------------------------------------------------------------------------------

  /// Some holder's chunk came so long after the one before.
  void observe(duration gap) noexcept { gaps_.observe(gap); }

  /// When a holder that is waited for is overdue.
  [[nodiscard]] time_point deadline(const transfer_holder& h) const { return h.waiting_since + patience(h); }

  /// When somebody is overdue or may be asked again.
  CAUSEWAY_DECL [[nodiscard]] time_point next_deadline(time_point now) const;

  /// When nothing is left to ask for, a holder with room takes over what a slower one would bring later than it: which
  /// chunk, if any. Cost: O(r^2) in requests out.
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint64_t> worth_asking_twice(const transfer_holder& h,
                                                                              const transfer_plan& plan,
                                                                              time_point now) const;

 private:
  CAUSEWAY_DECL [[nodiscard]] bool any_listed(bool transfer_holder::*what) const;

  // Before a holder's first chunk, the chunks of others tell what to expect of it.
  CAUSEWAY_DECL [[nodiscard]] duration patience(const transfer_holder& h) const;

  CAUSEWAY_DECL [[nodiscard]] time_point comes_at(const transfer_holder& h, const transfer_holder::request& r) const;

  transfer_options options_;
  std::map<net::peer_id, transfer_holder> all_;
  net::arrival_statistics gaps_;  // between chunks, of all holders
};

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/transfer/impl/transfer_holders.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDERS_HPP
