// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_BLAME_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_BLAME_IPP

#include <causeway/membership/blame.hpp>

#include <set>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL std::vector<net::peer_id> explain(const std::vector<complaint>& complaints,
                                                const std::vector<net::peer_id>& order, net::peer_id spared,
                                                const dispute_counts& disputes) {
  const auto disputed = [&](net::peer_id id) { return disputes.contains(id) ? disputes.at(id) : 0U; };
  std::vector<complaint> edges;
  for (const complaint& c : complaints) {  // a link is one edge, whoever complains of it
    if (contains(order, c.by) && contains(order, c.about)) {
      edges.push_back({std::min(c.by, c.about), std::max(c.by, c.about)});
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());

  std::vector<net::peer_id> out;
  while (!edges.empty()) {
    std::map<net::peer_id, std::size_t> weight;
    for (const complaint& e : edges) {
      weight[e.by] += e.by == e.about ? edges.size() + 1 : 1;
      if (e.by != e.about) ++weight[e.about];
    }
    net::peer_id worst = 0;
    for (const net::peer_id id : order) {
      const std::size_t w = weight.contains(id) ? weight[id] : 0;
      if (w == 0) continue;
      const bool more = worst == 0 || w > weight[worst];
      const bool equal = worst != 0 && w == weight[worst];
      const bool as_often = disputed(id) == disputed(worst) && id != spared;
      if (more || (equal && (disputed(id) > disputed(worst) || as_often))) worst = id;
    }
    std::erase_if(edges, [&](const complaint& e) { return e.by == worst || e.about == worst; });
    out.push_back(worst);
  }
  return out;
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL blame::blame(peer_table& t) : t_{t} {}

CAUSEWAY_DECL void blame::begin_exchange(ballot at, const std::vector<net::peer_id>& who) {
  last_at_ = at;
  last_order_ = who;
}

CAUSEWAY_DECL void blame::on(net::peer_id from, const failure& m) {
  if (m.at != last_at_) return;
  if (m.suspects.empty() && m.why != errc::cancelled) unexplained_ = true;  // who ends it of its own accord blames nobody
  for (const net::peer_id id : m.suspects) complaints_.push_back({{from, id}, m.why});
}

CAUSEWAY_DECL void blame::failed(const attempt& a) {
  for (const net::peer_id id : a.asked()) {
    if (!t_.up(id)) somebody_lost_ = true;
    if (a.adopting()) continue;
    owing_.push_back(id);
    if (t_.up(id) && a.silent(id) && a.somebody_voted()) complaints_.push_back({{id, id}, errc::timeout});
  }
}

CAUSEWAY_DECL void blame::committed(const attempt& a, net::peer_id id, peer_entry& p) {
  if (a.adopting() || !a.asked().contains(id)) return;
  std::erase(narrowed_, id);
  if (a.silent(id) && ++p.unvoted > unvoted_allowed) exclude(id, "it takes part in rounds and does not vote for them");
  if (!a.voted(id)) return;
  for (failed_link& c : complaints_) {
    if (c.link.about == id) c.link.about = c.link.by;  // who complained of it could have voted, too
  }
  p.unvoted = 0;
  if (++p.sound < sound_rounds) return;
  p.sound = 0;
  p.exclusions -= std::min(p.exclusions, 1U);
  if (const auto at = disputes_.find(id); at != disputes_.end() && --at->second == 0) disputes_.erase(at);
}

CAUSEWAY_DECL std::vector<complaint> blame::open_complaints(const std::vector<net::peer_id>& stuck) const {
  std::vector<complaint> links;
  for (const failed_link& c : complaints_) {
    const bool gone = !t_.up(c.link.by) || !t_.up(c.link.about);
    const bool hung = contains(stuck, c.link.by) || contains(stuck, c.link.about);
    const bool waited = c.why == errc::timeout && c.link.by != c.link.about;  // perhaps for one who waited for another
    if (!gone && !hung && !(waited && (somebody_lost_ || !stuck.empty()))) links.push_back(c.link);
  }
  return links;
}

CAUSEWAY_DECL void blame::note_disputes(const std::vector<complaint>& links) {
  std::set<complaint> pairs;
  for (const complaint& c : links) pairs.insert({std::min(c.by, c.about), std::max(c.by, c.about)});
  for (const complaint& c : pairs) {
    if (c.by == c.about) continue;
    ++disputes_[c.by];
    ++disputes_[c.about];
  }
}

CAUSEWAY_DECL void blame::exclude(net::peer_id id, const std::string& reason) {
  peer_entry& p = t_.entry(id);
  p.pause = 1U << std::min(p.exclusions, 4U);
  p.sound = 0;
  ++p.exclusions;
  const std::string why = "peer " + std::to_string(id) + " sits out " + std::to_string(p.pause) +
                          (p.pause == 1 ? " attempt: " : " attempts: ") + reason;
  t_.out->log(severity::warning, why);
  t_.post(id, exclusion{why});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_BLAME_IPP
