// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_REFOUND_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_REFOUND_IPP

#include <causeway/membership/refound.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL durable_record refounded(const durable_record& old, std::uint64_t run, net::peer_id self) {
  CAUSEWAY_EXPECT(old.newest.has_value() && old.newest->run != run && old.self != self);
  commit_record first;
  first.run = run;
  first.round = old.newest->round + 1;
  first.parent = old.newest->chain();
  first.state = old.newest->state;
  first.members = {self};
  first.returned = old.samples.holders();
  durable_record founded = fresh_record(run, self);
  founded.samples = old.samples;
  founded.samples.apply(first);
  first.ledger = founded.samples.hash();
  founded.newest = std::move(first);
  return founded;
}

CAUSEWAY_DECL event refound_event(const durable_record& founded) {
  event e;
  e.what = event::refound;
  e.peer = founded.self;
  e.round = founded.newest->round;
  e.hash = founded.newest->state;
  e.parent = founded.newest->parent;
  e.chain = founded.newest->chain();
  return e;
}

CAUSEWAY_DECL std::vector<event> last_words(const durable_record& record, time_point now) {
  detail::noting notes;
  detail::acceptor{record, notes}.note_boot(now);
  return std::move(notes.noted);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_INLINE void noting::note(const event& e) { noted.push_back(e); }

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_REFOUND_IPP
