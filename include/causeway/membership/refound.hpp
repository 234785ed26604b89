// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_REFOUND_HPP
#define CAUSEWAY_MEMBERSHIP_REFOUND_HPP

// A new run that goes on from a commit of another, for when too few of its members can ever come back. No quorum decides
// this: a person does, and takes the risk that the others go on too. So it is another run, with another id, and neither can
// mistake the other's messages, records or samples for its own. Its first record names the other's last as its parent.

#include <causeway/core/clock.hpp>
#include <causeway/membership/acceptor.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/situation.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

/// What the founder of `run` has to remember: the state of the newest commit that `old` knows, as a round of its own, with
/// `self` as the only member. Every sample that is not in a commit of the old run is there to be trained on; who held it
/// goes for nothing. A vote for a later round is given up: nobody can say whether it was committed. Precondition: `old`
/// knows a commit of another run; `self` was nobody in it.
CAUSEWAY_DECL [[nodiscard]] durable_record refounded(const durable_record& old, std::uint64_t run, net::peer_id self);

/// For the history of the founder, before anything else: a checker takes the record without votes.
CAUSEWAY_DECL [[nodiscard]] event refound_event(const durable_record& founded);

namespace detail {
/// Keeps what is noted; nothing else is asked of it.
struct noting final : effects {
  std::vector<event> noted{};

  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  bool persist(const durable_record&) override { return true; }
  void wake_at(time_point) override {}
  CAUSEWAY_INLINE void note(const event& e) override;
};
}  // namespace detail

/// What the peer of this record says when it is started again, for the end of its history where it never will be: a process
/// that was killed may not have come to note its last steps, and a run may be founded on one of them.
CAUSEWAY_DECL [[nodiscard]] std::vector<event> last_words(const durable_record& record, time_point now);

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/refound.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_REFOUND_HPP
