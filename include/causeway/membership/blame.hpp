// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_BLAME_HPP
#define CAUSEWAY_MEMBERSHIP_BLAME_HPP

// Whose fault a failed attempt was, and who sits out for it. Evidence, the strongest first: a peer that does not come out
// of the attempt while its connection stands (it hangs); one that took part and did not vote; what peers saw themselves of
// each other; and where nobody saw anything, which halves of the peers attempts fail with.

#include <causeway/core/error.hpp>
#include <causeway/membership/attempt.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

// Who has to sit out so that the next attempt does not fail as the last one did. A report "my link to s failed" is an edge
// between two peers, one of which has to go; a peer that failed by itself is an edge to itself. The peers to leave out are
// a small vertex cover of these edges.

/// One complaint: `by` could not exchange with `about`. by == about: it failed by itself.
struct complaint {
  net::peer_id by = 0;
  net::peer_id about = 0;

  friend auto operator<=>(const complaint&, const complaint&) = default;
};

/// How often each peer was one of two of whom one had to be at fault.
using dispute_counts = std::map<net::peer_id, std::uint32_t>;
/// A complaint, and what its peer saw.
struct failed_link {
  complaint link;
  errc why = errc::peer_lost;
};

/// Peers out of `order` that explain all complaints, taken greedily: who fails by itself, then who is in most of what is
/// left; of equals the one with more `disputes`, then the one later in `order`; `spared` (the leader) only against peers in
/// fewer. Greedy is smallest for the patterns that links make (stars and single pairs) and at most a factor ln n off. Who
/// complains of others without reason, each time of somebody else, is found the second time. Cost: O(n · complaints).
CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                              const std::vector<net::peer_id>& order, net::peer_id spared,
                                                              const dispute_counts& disputes = {});

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// Of one leader. Pauses are peer_entry::pause, which attempts count down. Not thread-safe.
class blame {
 public:
  CAUSEWAY_DECL explicit blame(peer_table& t);

  // ---- what happens -----------------------------------------------------------------------------------------------------

  void begin_round() { owing_.clear(); }  // complaints stay: who cannot exchange data would hold this round up as well
  CAUSEWAY_DECL void begin_exchange(ballot at, const std::vector<net::peer_id>& who);
  void begin_adoption(ballot at) { last_at_ = at; }

  CAUSEWAY_DECL void on(net::peer_id from, const failure& m);

  CAUSEWAY_DECL void failed(const attempt& a);

  /// A round was made: who took part is not what spoils attempts; who voted is sound, and who did not is found out.
  CAUSEWAY_DECL void committed(const attempt& a, net::peer_id id, peer_entry& p);

  /// Whether it was asked for the last exchange.
  [[nodiscard]] bool took_part(net::peer_id id) const { return contains(last_order_, id); }
  [[nodiscard]] const std::vector<net::peer_id>& last_order() const noexcept { return last_order_; }

  // ---- who sits out -----------------------------------------------------------------------------------------------------

  /// Somebody who took part in the failed attempt, is here, and is not `ready(id)` again: until it is, or has been waited
  /// for in vain, nobody knows whose fault it was. 0: nobody.
  template <class Ready>
  [[nodiscard]] net::peer_id owes_answer(const Ready& ready) const {
    const auto owes = [&](net::peer_id id) { return t_.up(id) && !ready(id); };
    const auto at = std::find_if(owing_.begin(), owing_.end(), owes);
    return at == owing_.end() ? 0 : *at;
  }
  /// Whether an attempt failed and nobody was found out yet.
  [[nodiscard]] bool is_open() const noexcept { return !owing_.empty(); }

  /// Turns what is known into peers that sit out, each time for longer. `could_go(who)`: whether `who` is enough for
  /// another attempt; `here`: all who could take part in it.
  template <class Ready, class CouldGo>
  void decide(const Ready& ready, const std::vector<net::peer_id>& here, const CouldGo& could_go) {
    const bool open = is_open();
    std::vector<net::peer_id> out = exclude_stuck(ready);
    const std::vector<complaint> links = open_complaints(out);
    const std::vector<net::peer_id> found = explain(links, last_order_, t_.self, disputes_);
    for (const net::peer_id id : found) exclude(id, "what it sent did not come or could not be used; see the logs");
    note_disputes(links);
    const bool explained = !found.empty() || !out.empty() || somebody_lost_;
    if (open && unexplained_ && !explained) narrow_down(here, could_go);
    complaints_.clear();
    owing_.clear();
    unexplained_ = somebody_lost_ = false;
  }

 private:
  /// The others waited for those who have not come out of the failed attempt, or for somebody who did.
  template <class Ready>
  std::vector<net::peer_id> exclude_stuck(const Ready& ready) {
    std::vector<net::peer_id> stuck;
    for (net::peer_id id = owes_answer(ready); id != 0; id = owes_answer(ready)) {
      std::erase(owing_, id);
      stuck.push_back(id);
      exclude(id, "it did not end its part in a failed attempt");
    }
    return stuck;
  }

  /// Complaints that neither a lost peer nor one that is stuck explains.
  CAUSEWAY_DECL [[nodiscard]] std::vector<complaint> open_complaints(const std::vector<net::peer_id>& stuck) const;

  CAUSEWAY_DECL void note_disputes(const std::vector<complaint>& links);

  CAUSEWAY_DECL void exclude(net::peer_id id, const std::string& reason);

  /// Nobody can say who spoilt the attempt: half of those it may be sit the next one out. If that fails too, it is one of
  /// the other half; if not, one of these. So after log2 n attempts one is left.
  template <class CouldGo>
  void narrow_down(std::vector<net::peer_id> here, const CouldGo& could_go) {
    std::erase_if(narrowed_, [&](net::peer_id id) { return !contains(last_order_, id); });
    if (narrowed_.empty()) narrowed_ = last_order_;
    if (narrowed_.size() == 1) {
      exclude(narrowed_.front(), "attempts with it fail");
      narrowed_.clear();
      return;
    }
    for (std::size_t i = narrowed_.size(); i > (narrowed_.size() + 1) / 2; --i) {
      const net::peer_id id = narrowed_[i - 1];
      std::erase(here, id);
      if (!could_go(here)) return;
      t_.entry(id).pause = std::max(t_.entry(id).pause, 1U);
    }
  }

  static constexpr std::uint32_t unvoted_allowed = 1;
  static constexpr std::uint32_t sound_rounds = 4;

  peer_table& t_;
  std::vector<failed_link> complaints_;
  bool unexplained_ = false;         ///< somebody's part in the attempt failed, and it does not know whose fault that was
  bool somebody_lost_ = false;       ///< somebody who took part is gone
  std::vector<net::peer_id> owing_;  ///< who took part in an attempt that failed, until it is known whose fault that was
  std::vector<net::peer_id> narrowed_;  ///< one of these spoils attempts
  dispute_counts disputes_;
  ballot last_at_;                        ///< of the last attempt
  std::vector<net::peer_id> last_order_;  ///< of the last exchange
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/blame.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_BLAME_HPP
