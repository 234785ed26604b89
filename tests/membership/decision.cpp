// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/proposal.hpp>

#include "support/catch.hpp"

#include <causeway/core/rng.hpp>
#include <causeway/membership/acceptor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

using namespace causeway;
using namespace causeway::membership;
using causeway::membership::detail::acceptor;

namespace {

commit_record value(std::uint64_t state) {
  commit_record r;
  r.state = state;
  return r;
}

const std::vector<net::peer_id> three{1, 2, 3};

}  // namespace

TEST_CASE("decision: without a quorum of statements there is none", "[membership][fast]") {
  const acceptance a{{1, 0}, value(1)};
  CHECK(what_may_be_proposed(three, {}).is == proposal_rule::wait);
  CHECK(what_may_be_proposed(three, std::vector<statement>{{1, &a}}).is == proposal_rule::wait);
  CHECK(what_may_be_proposed(three, std::vector<statement>{{1, nullptr}, {9, nullptr}}).is == proposal_rule::wait);
}

TEST_CASE("decision: where a quorum voted for nothing, anything goes", "[membership][fast]") {
  const auto rule = what_may_be_proposed(three, std::vector<statement>{{1, nullptr}, {3, nullptr}});
  CHECK(rule.is == proposal_rule::free);
  CHECK(rule.value == nullptr);
}

TEST_CASE("decision: a vote binds as long as the silent could make it a quorum", "[membership][fast]") {
  const acceptance a{{1, 0}, value(1)};
  const auto two = what_may_be_proposed(three, std::vector<statement>{{1, nullptr}, {3, &a}});
  CHECK(two.is == proposal_rule::bound);
  CHECK(two.value->state == 1);
  const auto all = what_may_be_proposed(three, std::vector<statement>{{1, nullptr}, {2, nullptr}, {3, &a}});
  CHECK(all.is == proposal_rule::free);
  CHECK(all.value->state == 1);  // it may be proposed, which saves the work
}

TEST_CASE("decision: the highest ballot counts", "[membership][fast]") {
  const acceptance low{{1, 5}, value(1)};
  const acceptance high{{2, 0}, value(2)};
  const auto rule = what_may_be_proposed(three, std::vector<statement>{{1, &low}, {3, &high}});
  CHECK(rule.is == proposal_rule::bound);
  CHECK(rule.value->state == 2);
}

TEST_CASE("decision: a value chosen in a low ballot binds though only one voted for it again", "[membership][fast]") {
  const acceptance first{{1, 0}, value(1)};
  const acceptance again{{2, 0}, value(1)};
  const auto rule = what_may_be_proposed(three, std::vector<statement>{{1, &again}, {2, &first}, {3, nullptr}});
  CHECK(rule.is == proposal_rule::bound);  // peers 1 and 2 chose it in 1.0
}

TEST_CASE("decision: replicas that differ in one ballot bind only where a quorum may agree", "[membership][fast]") {
  const std::vector<net::peer_id> five{1, 2, 3, 4, 5};
  const acceptance one{{1, 0}, value(1)};
  const acceptance two{{1, 0}, value(2)};
  CHECK(what_may_be_proposed(five, std::vector<statement>{{1, &one}, {2, &two}, {3, nullptr}}).is == proposal_rule::wait);
  const auto clear = what_may_be_proposed(five, std::vector<statement>{{1, &one}, {2, &two}, {3, &one}, {4, nullptr}});
  CHECK(clear.is == proposal_rule::bound);
  CHECK(clear.value->state == 1);
  const auto neither =
      what_may_be_proposed(five, std::vector<statement>{{1, &one}, {2, &two}, {3, &one}, {4, &two}, {5, nullptr}});
  CHECK(neither.is == proposal_rule::free);
}

// ---- real acceptors, proposers that do everything the rule allows, and a network that does what it likes ----------------

namespace {

using rule_function =
    std::function<proposal_rule(std::span<const net::peer_id> members, std::span<const statement> statements)>;

struct memory final : effects {
  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  bool persist(const durable_record& record) override { return stored = record, true; }
  void wake_at(time_point) override {}
  durable_record stored;
};

struct duel {
  struct proposer {
    std::uint32_t term = 0;
    ballot next{};
    ballot barrier{};
    std::map<net::peer_id, std::optional<acceptance>> statements{};
  };
  struct letter {
    enum kind { promise, bar, propose, state } is;
    net::peer_id to;
    std::size_t by;  ///< proposer
    ballot at;
    commit_record value{};
    std::optional<acceptance> accepted{};
  };

  duel(std::uint64_t seed, rule_function r) : draw{seed}, rule{std::move(r)} {
    commit_record first;
    first.run = 9;
    for (std::uint64_t i = 0; i < 3 + seed % 3; ++i) first.members.push_back(i + 1);
    ledger samples;
    samples.apply(first);
    first.ledger = samples.hash();
    for (const net::peer_id id : first.members) {
      disks[id] = std::make_unique<memory>();
      acceptor a{fresh_record(9, id), *disks[id]};
      REQUIRE(a.learn(first, samples, {}));
    }
    root = first;
  }

  /// Proposer i is member i + 1.
  void act(std::size_t i) {
    proposer& p = proposers[i];
    const auto members = root.members;
    std::vector<statement> heard;
    for (const auto& [id, accepted] : p.statements) heard.push_back({id, accepted ? &*accepted : nullptr});
    const proposal_rule may = p.term > 0 ? rule(members, heard) : proposal_rule{};
    if (may.is != proposal_rule::wait && draw.below(3) > 0) return propose(i, may);
    if (p.term > 0 && draw.below(2) == 0) {  // again, above everything proposed in this term
      p.barrier = p.next;
      p.statements.clear();
      for (const net::peer_id id : members) mail.push_back({letter::bar, id, i, p.barrier});
      return;
    }
    p = {.term = std::max(p.term + 1, highest + static_cast<std::uint32_t>(draw.below(2)))};  // perhaps another's, too
    highest = std::max(highest, p.term);
    p.next = p.barrier = {p.term, 0};
    for (const net::peer_id id : members) mail.push_back({letter::promise, id, i, p.barrier});
  }

  void propose(std::size_t i, const proposal_rule& may) {
    proposer& p = proposers[i];
    commit_record fresh;
    fresh.run = 9;
    fresh.round = 1;
    fresh.parent = root.chain();
    fresh.at = p.next;
    fresh.state = ++states * 10;
    fresh.members = root.members;
    fresh.ledger = ledger_hash();
    const bool take = may.is == proposal_rule::bound || (may.value != nullptr && draw.below(2) == 0);
    for (const net::peer_id id : root.members) {
      commit_record v = take ? *may.value : fresh;
      if (!take && draw.below(12) == 0) ++v.state;  // a replica that computes something else
      mail.push_back({letter::propose, id, i, p.next, v});
    }
    p.next = p.next.next();
    p.barrier = p.next;
    p.statements.clear();
  }

  void deliver() {
    const std::size_t at = draw.below(mail.size());
    const letter m = mail[at];
    if (draw.below(4) > 0) mail.erase(mail.begin() + static_cast<std::ptrdiff_t>(at));  // or it comes again
    if (draw.below(6) == 0) return;                                                     // or never
    const net::peer_id boss = m.by + 1;
    acceptor a{disks[m.to]->stored, *disks[m.to]};  // restarted before each letter
    proposer& p = proposers[m.by];
    if (m.is == letter::state) {
      if (m.at.term == p.term && m.at >= p.barrier) p.statements[m.to] = m.accepted;
      return;
    }
    const bool mine = a.durable().floor.term == m.at.term && a.durable().promised_to == boss;
    if (m.is == letter::promise && !a.promise(m.at.term, boss, {})) return;
    if (m.is == letter::bar && (!mine || !a.bar(m.at, {}))) return;
    if (m.is == letter::propose) {
      if (mine && a.accept(m.at, m.value, {})) votes[{m.at, m.value.chain()}].insert(m.to);
      return;
    }
    mail.push_back({letter::state, m.to, m.by, a.durable().floor, {}, a.durable().accepted});
  }

  /// How many values were chosen.
  std::size_t run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (mail.empty() || draw.below(8) == 0) {
        act(draw.below(3));
      } else {
        deliver();
      }
    }
    std::set<std::uint64_t> chosen;
    for (const auto& [what, voters] : votes) {
      if (is_quorum(root.members, {voters.begin(), voters.end()})) chosen.insert(what.second);
    }
    return chosen.size();
  }

  std::uint64_t ledger_hash() const {
    ledger l;
    l.apply(root);
    return l.hash();
  }

  rng draw;
  rule_function rule;
  commit_record root;
  std::map<net::peer_id, std::unique_ptr<memory>> disks;
  proposer proposers[3];
  std::vector<letter> mail;
  std::map<std::pair<ballot, std::uint64_t>, std::set<net::peer_id>> votes;
  std::uint32_t highest = 0;
  std::uint64_t states = 0;
};

/// Seeds until two values are chosen in one duel; 0: never.
std::uint64_t first_split(const rule_function& rule, std::uint64_t seeds, std::uint64_t& decided) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::size_t chosen = duel{seed, rule}.run(400);
    if (chosen > 1) return seed;
    decided += chosen;
  }
  return 0;
}

/// Textbook mistakes.
proposal_rule only_the_highest_ballot_counts(std::span<const net::peer_id> members, std::span<const statement> all) {
  const proposal_rule right = what_may_be_proposed(members, all);
  if (right.is != proposal_rule::bound) return right;
  ballot highest;
  for (const statement& s : all) {
    if (s.accepted != nullptr) highest = std::max(highest, s.accepted->at);
  }
  std::vector<net::peer_id> voters{members.begin(), members.end()};
  for (const statement& s : all) {
    if (s.accepted == nullptr || s.accepted->at < highest) std::erase(voters, s.peer);
  }
  return is_quorum(members, voters) ? right : proposal_rule{proposal_rule::free, nullptr};
}

proposal_rule votes_do_not_bind(std::span<const net::peer_id> members, std::span<const statement> all) {
  const proposal_rule right = what_may_be_proposed(members, all);
  return right.is == proposal_rule::bound ? proposal_rule{proposal_rule::free, nullptr} : right;
}

proposal_rule one_statement_is_enough(std::span<const net::peer_id>, std::span<const statement> all) {
  if (all.empty()) return {};
  const acceptance* a = all.front().accepted;
  return a == nullptr ? proposal_rule{proposal_rule::free, nullptr} : proposal_rule{proposal_rule::bound, &a->value};
}

}  // namespace

TEST_CASE("decision: whatever proposers and the network do, at most one value is chosen", "[membership][fast]") {
  std::uint64_t decided = 0;
  const auto rule = [](auto&&... said) { return what_may_be_proposed(said...); };
  CHECK(first_split(rule, 3000, decided) == 0);
  CHECK(decided > 1000);  // and often one is
}

TEST_CASE("decision: duels find wrong rules", "[membership][fast]") {
  std::uint64_t decided = 0;
  CHECK(first_split(votes_do_not_bind, 2000, decided) != 0);
  CHECK(first_split(one_statement_is_enough, 2000, decided) != 0);
  CHECK(first_split(only_the_highest_ballot_counts, 30000, decided) != 0);
}
