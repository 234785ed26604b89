// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP

// Bodies of membership/proposal.hpp.

#include <causeway/membership/proposal.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL std::vector<std::uint64_t> brought(const peer_table& t, const std::vector<net::peer_id>& who) {
  std::vector<std::uint64_t> samples;
  for (const net::peer_id id : who) samples.push_back(t.find(id)->said->samples);
  return samples;
}

CAUSEWAY_DECL bool out_of_work(const peer_table& t, const std::vector<net::peer_id>& who) {
  const auto brings_nothing = [&](net::peer_id id) {
    const report& said = *t.find(id)->said;
    return said.samples == 0 && !said.leaving;
  };
  return handed_out(t.votes.durable().samples) && std::all_of(who.begin(), who.end(), brings_nothing);
}

CAUSEWAY_DECL commit_record propose(const peer_table& t, const view& who) {
  commit_record r;
  r.run = t.settings.run;
  r.round = who.round;
  r.parent = who.parent;
  r.at = who.at;
  for (const view_member& m : who.members) {
    if (m.samples > 0) r.contributions.push_back({m.peer, m.samples});
    if (!t.find(m.peer)->said->leaving) r.members.push_back(m.peer);
  }
  const bool all_leave = r.members.empty();
  for (const view_member& m : who.members) {
    if (all_leave) r.members.push_back(m.peer);
    if (!all_leave && t.find(m.peer)->said->leaving) r.returned.push_back(m.peer);
  }
  std::vector<net::peer_id> here;
  for (const view_member& m : who.members) here.push_back(m.peer);
  const bool all_back = out_of_work(t, here);
  std::sort(here.begin(), here.end());
  for (const net::peer_id id : t.votes.durable().samples.holders()) {
    const peer_entry* p = t.find(id);
    const bool gone = p == nullptr || (!p->up && p->rounds_down > 0) || (p->up && p->said && p->said->leaving);
    const bool away = gone && !std::binary_search(here.begin(), here.end(), id);
    if ((away || all_back) && r.returned.size() < max_members) r.returned.push_back(id);
  }
  r.ledger = t.votes.hash_after(r);
  return r;
}

CAUSEWAY_DECL bool adds_up(const go& m) {
  std::vector<contribution> weights;
  std::vector<net::peer_id> who;
  for (const view_member& v : m.who.members) {
    if (v.samples > 0) weights.push_back({v.peer, v.samples});
    who.push_back(v.peer);
  }
  std::sort(who.begin(), who.end());
  const auto takes_part = [&](net::peer_id id) { return std::binary_search(who.begin(), who.end(), id); };
  return weights == m.proposal.contributions && std::adjacent_find(who.begin(), who.end()) == who.end() &&
         std::all_of(m.proposal.members.begin(), m.proposal.members.end(), takes_part);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_PROPOSAL_IPP
