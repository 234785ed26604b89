// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDERS_HPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_TRANSFER_HOLDERS_HPP

// All peers that a fetcher is connected with or was told of, and the questions about them together: who is left, who is
// overdue next, and who could bring sooner what another was asked for.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/membership/transfer/transfer_holder.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_plan.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

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
