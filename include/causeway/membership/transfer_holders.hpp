// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP

// All peers that a fetcher is connected with or was told of, and the questions about them together: who is left, who is
// overdue next, and who could bring sooner what another was asked for.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/membership/transfer_holder.hpp>
#include <causeway/membership/transfer_options.hpp>
#include <causeway/membership/transfer_plan.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::membership {

class transfer_holders {
 public:
  /// What is left to hope for.
  struct prospects {
    bool eligible = false;      ///< somebody may have the state
    bool within_reach = false;  ///< of those, somebody is connected
    bool answers = false;       ///< of those, somebody was not overdue too often
  };

  explicit transfer_holders(const transfer_options& options) : options_{options}, gaps_{options.arrival} {}

  [[nodiscard]] auto begin() noexcept { return all_.begin(); }
  [[nodiscard]] auto end() noexcept { return all_.end(); }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

  transfer_holder& known(net::peer_id peer) { return all_.try_emplace(peer, peer, options_).first->second; }
  [[nodiscard]] transfer_holder* find(net::peer_id peer) {
    const auto at = all_.find(peer);
    return at == all_.end() ? nullptr : &at->second;
  }
  void erase(net::peer_id peer) { all_.erase(peer); }

  /// For the next fetch: who is connected stays known, and nothing else.
  void begin_anew() {
    for (auto& [id, h] : all_) {
      const bool up = h.up;
      h = transfer_holder{id, options_};
      h.up = up;
    }
  }

  [[nodiscard]] prospects outlook() const {
    prospects p;
    for (const auto& [id, h] : all_) {
      p.eligible |= h.eligible();
      p.within_reach |= h.eligible() && h.up;
      p.answers |= h.eligible() && h.up && h.overdue < options_.max_overdue;
    }
    return p;
  }

  /// Why there is nobody left to ask for `round`.
  [[nodiscard]] error none_left(std::uint64_t round, std::uint64_t newest_seen) const {
    const std::string name = "round " + std::to_string(round);
    if (any_listed(&transfer_holder::gone)) {
      return fail(errc::not_found, "state transfer",
                  "the state of " + name + " is gone; the newest round heard of is " + std::to_string(newest_seen));
    }
    if (any_listed(&transfer_holder::banned)) {
      return fail(errc::corrupt, "state transfer", "all holders of " + name + " sent bytes that do not fit its hash");
    }
    return fail(errc::peer_lost, "state transfer", "no holder of " + name + " is within reach");
  }

  template <class F>
  [[nodiscard]] bool any_other_usable(const transfer_holder& h, time_point now, F&& also) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) {
      return entry.first != h.id && entry.second.usable(now) && also(entry.second);
    });
  }

  /// Who is most likely to answer; nullptr: nobody can be asked now.
  [[nodiscard]] transfer_holder* best(time_point now) {
    const auto rank = [](const transfer_holder& h) { return std::pair{h.overdue, h.bad}; };
    transfer_holder* found = nullptr;
    for (auto& [id, h] : all_) {
      if (h.usable(now) && (found == nullptr || rank(h) < rank(*found))) found = &h;
    }
    return found;
  }

  // ---- times --------------------------------------------------------------------------------------------------------

  /// Some holder's chunk came so long after the one before.
  void observe(duration gap) noexcept { gaps_.observe(gap); }

  /// When a holder that is waited for is overdue.
  [[nodiscard]] time_point deadline(const transfer_holder& h) const { return h.waiting_since + patience(h); }

  /// When somebody is overdue or may be asked again.
  [[nodiscard]] time_point next_deadline(time_point now) const {
    time_point next = no_deadline;
    for (const auto& [id, h] : all_) {
      if (!h.eligible() || !h.up) continue;
      if (h.waited_for()) next = std::min(next, deadline(h));
      if (h.not_before > now) next = std::min(next, h.not_before);
    }
    return next;
  }

  /// When nothing is left to ask for, a holder with room takes over what a slower one would bring later than it: which
  /// chunk, if any. Cost: O(r^2) in requests out.
  [[nodiscard]] std::optional<std::uint64_t> worth_asking_twice(const transfer_holder& h, const transfer_plan& plan,
                                                                time_point now) const {
    if (!h.pace.known() || h.overdue > 0) return std::nullopt;
    std::optional<std::uint64_t> last;
    time_point latest = now + h.pace.answer_in(h.active) * 5 / 4;  // a quarter more: it costs bytes
    for (const auto& [id, other] : all_) {
      if (id == h.id || other.active == 0) continue;
      for (const auto& [key, r] : other.asked) {
        if (r.at != transfer_holder::standing::active || (key & transfer_holder::manifest_bit) != 0) continue;
        if (plan.askers(key) > 1 || h.expects(key) || h.gave_bad(key)) continue;
        const time_point comes = comes_at(other, r);
        if (comes <= latest) continue;
        latest = comes;
        last = key;
      }
    }
    return last;
  }

 private:
  [[nodiscard]] bool any_listed(bool transfer_holder::*what) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const auto& entry) { return entry.second.listed && entry.second.*what; });
  }

  // Before a holder's first chunk, the chunks of others tell what to expect of it.
  [[nodiscard]] duration patience(const transfer_holder& h) const {
    if (h.pace.known()) return h.pace.patience();
    if (gaps_.count() == 0) return options_.first_answer;
    return std::min(gaps_.patience() * 2, options_.first_answer);
  }

  [[nodiscard]] time_point comes_at(const transfer_holder& h, const transfer_holder::request& r) const {
    return h.pace.known() ? h.waiting_since + h.pace.gap() * h.place_of(r) : deadline(h);
  }

  transfer_options options_;
  std::map<net::peer_id, transfer_holder> all_;
  net::arrival_statistics gaps_;  // between chunks, of all holders
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_HOLDERS_HPP
