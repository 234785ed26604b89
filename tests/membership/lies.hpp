// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_LIES_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_LIES_HPP

// One member that lies. Its process follows the protocol; what it says on the wire, and what it does in an exchange, does
// not. Each kind of lie can be switched on by itself. While it lies nothing may be committed twice, and no sample be
// trained on twice; once it stops, the run has to go on.

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace causeway::test {

enum class lie : std::uint8_t {
  terms,         ///< heartbeats and campaigns with terms far above all others
  commits,       ///< notices of commits that nobody made, a million rounds ahead
  next_commits,  ///< the same for the round that is being made
  weights,       ///< samples that it does not hold, and as a leader weights that nobody announced
  refusals,      ///< ends every exchange and blames somebody
  shards,        ///< gives different peers different bytes of the shard that it reduces
  claims,        ///< says that it holds states it does not hold, and votes for values that nobody computed
  orders,        ///< calls off attempts and lets peers go as if it led
  replays,       ///< repeats what it said long ago
  denials,       ///< does not admit afterwards what it voted for
};

inline constexpr std::array<std::string_view, 10> lie_names{"terms",  "commits", "next_commits", "weights", "refusals",
                                                            "shards", "claims",  "orders",       "replays", "denials"};
constexpr std::string_view to_string(lie l) noexcept { return lie_names[static_cast<std::size_t>(l)]; }

using lies = std::set<lie>;

/// What the protocol withstands, also all at once, in tens of thousands of seeds. Not `denials`, rare as it is that they do
/// harm: two majorities may share one member only. If that one voted in the first and denies it in the second, both decide.
inline const lies withstood{lie::terms,  lie::commits, lie::next_commits, lie::weights, lie::refusals,
                            lie::shards, lie::claims,  lie::orders,       lie::replays};

/// Speaks for the host `who`, until it is stopped.
class liar {
 public:
  liar(cluster& c, std::size_t who, lies which) : c_{c}, who_{who}, which_{std::move(which)} {
    if (tells(lie::shards)) equivocates_ = c_.uniform(0.2, 1);
    if (tells(lie::refusals)) me().refuses = c_.uniform(0.5, 1);
    c_.forge = [this](std::size_t from, std::size_t to, std::vector<std::byte>& bytes) {
      if (from != who_) return true;
      if (decides_alone(to)) return !forged_.contains(hash_bytes(bytes));
      if (lies_) distort(bytes);
      return true;
    };
    c_.cheat = [this](const host& h, const view& v, std::uint64_t& state) {
      if (equivocated(v)) state += h.index % 2;
    };
    speak_later();
  }
  liar(const liar&) = delete;
  liar& operator=(const liar&) = delete;
  ~liar() {
    c_.forge = nullptr;
    c_.cheat = nullptr;
  }

  /// It lies no more. What it has said is still on its way.
  void stop() {
    lies_ = false;
    here_.reset();
    equivocates_ = me().refuses = 0;
  }

 private:
  /// A quorum by itself, in the newest view that it or the other knows. What it says then is so: it may vote, and commit,
  /// without anybody else, and whoever hears of it later sees the same messages from a peer that did and from one that
  /// lies.
  [[nodiscard]] bool decides_alone(std::size_t to) const {
    const auto alone = [&](std::size_t host) {
      const auto& p = c_.hosts[host]->process;
      return p && p->durable().newest && is_quorum(p->durable().newest->members, {me().id});
    };
    return alone(who_) || alone(to);
  }

  [[nodiscard]] bool tells(lie l) const { return which_.contains(l); }
  [[nodiscard]] host& me() const { return *c_.hosts[who_]; }

  /// The same for all who take part in an exchange, whoever asks first.
  [[nodiscard]] bool equivocated(const view& v) const {
    if (equivocates_ <= 0 || !v.rank_of(me().id)) return false;
    return static_cast<double>(mix(v.at.wire(), v.round, who_) % 1000) < 1000 * equivocates_;
  }

  void speak_later() {
    c_.after(c_.uniform(0.05, 0.6), [this, here = std::weak_ptr<char>{here_}] {
      if (here.expired()) return;
      speak();
      speak_later();
    });
  }

  /// One lie of each kind, to one peer each.
  void speak() {
    if (!me().process || !me().process->durable().newest) return;
    if (tells(lie::terms)) to_somebody(c_.chance(0.5) ? any(forged_beat()) : any(forged_campaign()));
    if (tells(lie::commits)) to_somebody(any(forged_sync(1'000'000)));
    if (tells(lie::next_commits)) to_somebody(c_.chance(0.5) ? any(forged_sync(1)) : any(forged_notice()));
    if (tells(lie::orders)) to_somebody(order());
    if (tells(lie::replays) && !said_.empty()) send(said_[c_.below(said_.size())]);
  }

  using message = membership::detail::message;
  template <class M>
  static message any(M m) {
    return message{std::move(m)};
  }

  [[nodiscard]] const durable_record& known() const { return me().process->durable(); }

  [[nodiscard]] std::uint32_t a_high_term() {
    const std::uint32_t above = known().floor.term + 1 + static_cast<std::uint32_t>(c_.below(1000));
    return c_.chance(0.5) ? ballot::max_term : above;
  }

  membership::detail::position far_ahead(std::uint64_t rounds) {
    return {known().newest->round + rounds, known().newest->chain() + 1};
  }

  membership::detail::heartbeat forged_beat() {
    membership::detail::heartbeat m;
    m.term = a_high_term();
    m.number = static_cast<std::uint32_t>(1 + c_.below(100));
    m.newest = far_ahead(c_.chance(0.5) ? 0 : 1'000'000);
    m.reachable = 100;
    m.quorum = true;
    return m;
  }

  membership::detail::campaign forged_campaign() {
    membership::detail::campaign m;
    m.term = a_high_term();
    m.newest = far_ahead(0);
    return m;
  }

  /// In itself without a fault: a ledger that fits, members that exist.
  membership::detail::sync forged_sync(std::uint64_t rounds) {
    membership::detail::sync m{*known().newest, {}, known().samples, {}};
    m.record.round += rounds;
    const std::uint64_t later = m.record.at.wire() + rounds;  // each round takes a ballot; not every liar thinks of it
    if (c_.chance(0.5)) m.record.at = {static_cast<std::uint32_t>(later >> 10U), static_cast<std::uint32_t>(later & 1023U)};
    m.record.parent = known().newest->chain();
    m.record.state += 1;
    m.votes = forged_votes();
    m.record.members = {me().id};
    m.record.contributions.clear();
    m.record.returned.clear();
    m.samples.apply(m.record);
    m.record.ledger = m.samples.hash();
    return m;
  }

  [[nodiscard]] certificate forged_votes() const {
    certificate votes;
    for (const net::peer_id id : known().newest->members) votes.push_back({id, {}});
    return votes;
  }

  membership::detail::commit_notice forged_notice() {
    membership::detail::commit_notice m;
    m.record = forged_sync(1).record;
    m.of = {m.record.round, m.record.chain()};
    m.votes = forged_votes();
    m.holders = {{me().id, cluster::address(me().index)}};
    return m;
  }

  message order() {
    const ballot next{known().floor.term, ballot::max_attempt - 1};
    switch (c_.below(4)) {
      case 0: return membership::detail::abort_attempt{next};
      case 1: return membership::detail::farewell{true};
      case 2: return membership::detail::exclusion{"you are not wanted"};
      default: {
        membership::detail::failure m;
        m.at = known().floor;
        for (const auto& h : c_.hosts) {
          if (h->id != me().id) m.suspects.push_back(h->id);
        }
        return m;
      }
    }
  }

  void to_somebody(const message& m) {
    std::vector<std::byte> bytes = membership::detail::encode(c_.common.run, m);
    forged_.insert(hash_bytes(bytes));
    send(std::move(bytes));
  }

  void send(std::vector<std::byte> bytes) {
    const std::size_t other = c_.below(c_.hosts.size());
    if (other != who_) c_.deliver(who_, other, std::move(bytes));
  }

  /// Changes what the process itself says.
  void distort(std::vector<std::byte>& bytes) {
    if (tells(lie::replays) && c_.chance(0.2) && said_.size() < 200) said_.push_back(bytes);
    if (!me().process) return;
    const auto& d = known();
    const membership::detail::base_record base{d.newest ? &*d.newest : nullptr, me().process->newest_chain()};
    auto m = membership::detail::decode_message(c_.common.run, bytes, base);
    if (!m || is_partial(*m)) return;
    if (auto* const r = std::get_if<membership::detail::report>(&*m)) distort(*r);
    if (auto* const g = std::get_if<membership::detail::go>(&*m)) distort(*g);
    if (auto* const v = std::get_if<membership::detail::vote>(&*m); v != nullptr && tells(lie::claims)) {
      v->state += c_.chance(0.3) ? nobodys : 0U;
    }
    bytes = membership::detail::encode(c_.common.run, *m, base);
  }

  /// Whether it is a difference to a record that the liar does not know any more.
  static bool is_partial(const message& m) {
    return std::visit(
        [](const auto& body) {
          if constexpr (requires { body.partial; }) return body.partial;
          return false;
        },
        m);
  }

  void distort(membership::detail::report& r) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    if (tells(lie::weights) && r.ready && c_.chance(0.5)) r.samples = c_.chance(0.5) ? most : r.samples + 1 + c_.below(50);
    r.holds = r.holds || tells(lie::claims);
    if (!tells(lie::denials)) return;
    if (r.accepted && c_.chance(0.3)) r.accepted->value.state += nobodys;
    if (c_.chance(0.2)) r.accepted.reset();
  }

  void distort(membership::detail::go& g) {
    if (!tells(lie::weights) || !c_.chance(0.5)) return;
    for (auto& m : g.who.members) m.samples += c_.below(3);
    for (auto& part : g.proposal.contributions) part.samples += c_.below(3);
  }

  /// Makes a state that nobody computed. A vote for one that others did compute counts, and is no lie that can be seen.
  static constexpr std::uint64_t nobodys = 1000;

  cluster& c_;
  std::size_t who_;
  lies which_;
  bool lies_ = true;
  double equivocates_ = 0;  ///< chance that it gives the others different shards in an exchange
  std::vector<std::vector<std::byte>> said_;
  std::set<std::uint64_t> forged_;  ///< hashes of what its process never said
  std::shared_ptr<char> here_ = std::make_shared<char>();
};

/// A run in which one member tells `which` lies for half a minute, while links break and peers crash; then it stops.
inline outcome lying_ride(std::uint64_t seed, const lies& which, const event_log& log = {}) {
  rng draw{seed, 97};
  const std::size_t n = 4 + draw.below(4);
  cluster c{seed, test_options(n)};
  c.log = log;
  c.latency = c.uniform(0.001, 0.1);
  c.training_time = c.uniform(0.5, 2);
  c.transfer_time = c.uniform(0.05, 1);
  start(c, n);
  c.run_for(c.uniform(2, 10));
  if (c.chance(0.5)) c.mischief.crash = c.uniform(0, 0.02);
  if (c.chance(0.5)) c.mischief.reorder = c.uniform(0, 0.1);
  const double pace = c.uniform(1, 8);
  liar one{c, c.below(n), which};
  const time_point end = c.now + for_seconds(30);
  while (c.now < end && c.violation.empty()) {
    c.run_for(c.uniform(0, 2 * pace));
    if (c.chance(0.5)) one_mishap(c, n + 2);
  }
  one.stop();
  return aftermath(c);
}

}  // namespace causeway::test

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_LIES_HPP
