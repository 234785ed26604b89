// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_FINDER_HPP
#define CAUSEWAY_MEMBERSHIP_FINDER_HPP

// How a peer without a leader finds one: it dials every address it ever heard of, a few at a time and ever more slowly, and
// asks whoever answers.

#include <causeway/membership/follower.hpp>
#include <causeway/membership/peer_table.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

class finder {
 public:
  CAUSEWAY_DECL finder(peer_table& t, follower& f);

  CAUSEWAY_DECL void seek(const std::vector<std::string>& addresses);

  /// An address that somebody may listen at.
  CAUSEWAY_DECL void hear_of(const std::string& address);

  CAUSEWAY_DECL void on(net::peer_id from, const guide& m);

  CAUSEWAY_DECL void peer_up(net::peer_id id);

  CAUSEWAY_DECL void peer_down(net::peer_id id);

  CAUSEWAY_DECL void wake();

  [[nodiscard]] time_point next_wake() const noexcept { return next_; }
  /// How long nobody has been within reach without whom the run cannot go on, or who could give away how it ended.
  CAUSEWAY_DECL [[nodiscard]] duration alone_for(time_point now) const;
  [[nodiscard]] std::size_t addresses() const noexcept { return heard_.size() + t_.votes.durable().others.size(); }

 private:
  static constexpr std::size_t at_once = 8;

  /// Newcomers know no more than we do.
  CAUSEWAY_DECL [[nodiscard]] bool somebody_there() const;

  CAUSEWAY_DECL void dial_some();

  CAUSEWAY_DECL void ask_some();

  peer_table& t_;
  follower& follower_;
  std::set<std::string> heard_;
  std::uint32_t tries_ = 0;
  std::size_t dialled_ = 0;
  std::size_t asked_ = 0;
  time_point next_ = no_deadline;
  time_point reached_;  ///< when somebody was there last, while there is no leader
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/finder.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_FINDER_HPP
