// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_OUTLOOK_HPP
#define CAUSEWAY_MEMBERSHIP_OUTLOOK_HPP

// Where a peer stands in the membership, as its trainer sees it and as people read it. It decides nothing.

#include <causeway/membership/candidate.hpp>
#include <causeway/membership/finder.hpp>
#include <causeway/membership/follower.hpp>
#include <causeway/membership/leader.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/situation.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// Of the parts of one protocol, which outlive it.
class outlook {
 public:
  CAUSEWAY_DECL outlook(const peer_table& t, const follower& f, const candidate& c, const finder& s, const leader& l);

  /// As of the last refresh().
  [[nodiscard]] const situation& now_what() const noexcept { return situation_; }

  /// Long lists are copied only when they changed: this runs after every event.
  CAUSEWAY_DECL void refresh();

  /// A few lines for people: where it stands, who leads, who is waited for, what was refused.
  CAUSEWAY_DECL [[nodiscard]] std::string describe(time_point now) const;

 private:
  CAUSEWAY_DECL [[nodiscard]] situation look() const;

  CAUSEWAY_DECL bool look_at_attempt(situation& s) const;

  CAUSEWAY_DECL void look_at_rest(situation& s) const;

  /// Why nothing can be committed; empty where it can.
  CAUSEWAY_DECL [[nodiscard]] std::string no_quorum() const;

  const peer_table& t_;
  const follower& follower_;
  const candidate& candidate_;
  const finder& finder_;
  const leader& leader_;
  situation situation_;
  std::uint64_t shown_ = 0;  ///< chain of situation_.newest
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/outlook.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_OUTLOOK_HPP
