// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_HPP
#define CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_HPP

// A cluster of protocols in virtual time, for tests: links with random delays that break and heal, processes that crash
// between any two effects and come back with what they persisted, disks that fail, and trainers whose "state" is a hash of
// the state before and of what was contributed. Every event goes to the checker at once. One seed, one history.

#include <causeway/core/rng.hpp>
#include <causeway/membership/checker.hpp>
#include <causeway/membership/protocol.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "membership/mischief.hpp"

namespace causeway::test {

using namespace causeway::membership;

inline time_point at_seconds(double s) { return {std::chrono::duration_cast<duration>(std::chrono::duration<double>{s})}; }
inline duration for_seconds(double s) { return at_seconds(s).since_start; }

class cluster;

/// One machine: what survives a crash, and the process while it runs.
struct host final : effects {
  host(cluster& w, std::size_t i, net::peer_id id_) : world{w}, index{i}, id{id_} {}

  void send(net::peer_id to, std::vector<std::byte> message) override;
  void dial(const std::string& address) override;
  void drop(net::peer_id peer, const std::string& why) override;
  bool persist(const durable_record& record) override;
  void wake_at(time_point when) override;
  void note(const event& e) override;

  cluster& world;
  std::size_t index;
  net::peer_id id;

  // On disk.
  std::vector<std::byte> stored;
  std::set<std::uint64_t> states;

  // In the process.
  std::unique_ptr<protocol> process;
  bool dying = false;                ///< crashed inside a call: its effects are lost from here on
  std::uint64_t life = 0, sent = 0;  ///< counts processes, bytes
  time_point wake_when = no_deadline;

  // The trainer.
  std::uint64_t held_round = 0, held_state = 0;
  bool holding = false;
  std::vector<std::uint64_t> numbers;  ///< trained on and not committed
  bool training = false, offered = false;
  std::uint64_t base = 0;  ///< chain that `numbers` were last checked against
  ballot busy_with{0, 0};
  std::uint64_t fetching = 0;
  std::uint64_t adopting = 0;
  bool hung = false;                 ///< its trainer
  double slowness = 1, refuses = 0;  ///< refuses: chance that it ends an exchange and blames somebody
  bool wants_out = false, gone = false;
};

class cluster {
 public:
  cluster(std::uint64_t seed, options common_options, chaos c = {})
      : common{std::move(common_options)}, mischief{c}, check{common.quota, common.budget}, draw_{seed, 7} {}

  // ---- building ------------------------------------------------------------------------------------------------------

  host& add() {
    const std::size_t i = hosts.size();
    hosts.push_back(std::make_unique<host>(*this, i, 100 + i));
    hosts.back()->stored = encode(fresh_record(common.run, 100 + i));
    return *hosts.back();
  }

  void boot(host& h, bool founder = false) {
    if (h.process || h.gone) return;
    ++h.life;
    h.dying = false;
    h.holding = h.training = h.offered = false;
    h.numbers.clear();
    h.base = h.fetching = h.adopting = 0;
    h.busy_with = {};
    options o = common;
    o.address = address(h.index);
    auto record = decode_durable_record(h.stored);
    h.process = std::make_unique<protocol>(o, std::move(record).value(), h);
    if (founder) {
      h.states.insert(first_state);
      h.held_state = first_state;
      h.held_round = 0;
      h.holding = true;
      call(h, [&](protocol& p) { p.found(first_state, now); });
    } else {
      std::vector<std::string> seeds{address(0)};
      if (hosts.size() > 1) seeds.push_back(address(1));
      call(h, [&](protocol& p) { p.join(seeds, now); });
    }
  }

  void crash(host& h) {
    if (!h.process) return;
    h.process.reset();
    h.wake_when = no_deadline;
    for (auto& other : hosts) {
      if (other->index != h.index) break_link(h.index, other->index, uniform(0.001, 0.2));
    }
  }

  void come_back(host& h) {
    if (h.gone) crash(h);
    h.wants_out = h.gone = false;
    boot(h);
  }

  // ---- links ---------------------------------------------------------------------------------------------------------

  static std::string address(std::size_t i) { return "host" + std::to_string(i); }

  struct link {
    bool up = false;
    bool cut = false;          ///< nothing passes and nothing says so
    std::uint64_t number = 0;  ///< counts connections
    time_point arrives[2];     ///< the last message in each direction: connections keep order
  };

  link& between(std::size_t a, std::size_t b) { return links_[{std::min(a, b), std::max(a, b)}]; }

  void connect(std::size_t a, std::size_t b) {
    link& l = between(a, b);
    if (a == b || l.up || l.cut || !hosts[a]->process || !hosts[b]->process) return;
    l.up = true;
    ++l.number;
    l.arrives[0] = l.arrives[1] = now;
    up_at(a, b, l.number);
    up_at(b, a, l.number);
  }

  void break_link(std::size_t a, std::size_t b, double notice) {
    link& l = between(a, b);
    if (!l.up) return;
    l.up = false;
    for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
      const std::uint64_t life = hosts[x]->life;
      after(notice * uniform(0, 1), [this, x = x, y = y, life, number = l.number] {
        if (hosts[x]->life == life && between(x, y).number == number) {
          call(*hosts[x], [&](protocol& p) { p.peer_down(hosts[y]->id, "broken", now); });
        }
      });
    }
  }

  void deliver(std::size_t from, std::size_t to, std::vector<std::byte> bytes) {
    link& l = between(from, to);
    if (!l.up) return;
    ++messages;
    if (l.cut) return;
    time_point& last = l.arrives[from < to ? 0 : 1];
    last = std::max(last, now + for_seconds(latency * uniform(0.5, 1.5)));
    const bool again = chance(mischief.duplicate);
    const auto arrive = [this, from, to, number = l.number](std::vector<std::byte> b) {
      link& then = between(from, to);
      if (!then.up || then.number != number || then.cut) return;
      tamper(from, to, b);
      if (forge && !forge(from, to, b)) return;
      call(*hosts[to], [&](protocol& p) { p.message(hosts[from]->id, b, now); });
    };
    if (again) at(last + for_seconds(uniform(0, 5)), [arrive, bytes] { arrive(bytes); });
    const time_point when = chance(mischief.reorder) ? now + for_seconds(uniform(0, 10 * latency)) : last;
    at(when, [arrive, b = std::move(bytes)]() mutable { arrive(std::move(b)); });
  }

  // ---- time ----------------------------------------------------------------------------------------------------------

  void at(time_point when, std::function<void()> what) { queue_.push({std::max(when, now), order_++, std::move(what)}); }
  void after(double s, std::function<void()> what) { at(now + for_seconds(s), std::move(what)); }

  /// Runs until `until`, or until something is wrong.
  void run_until(time_point until) {
    while (!queue_.empty() && queue_.top().when <= until && violation.empty()) {
      timed next = std::move(const_cast<timed&>(queue_.top()));
      queue_.pop();
      now = next.when;
      ++steps;
      next.what();
    }
    now = std::max(now, until);
  }
  void run_for(double s) { run_until(now + for_seconds(s)); }

  /// Until `done`, at most so long. True: it came.
  bool run_until_true(double s, const std::function<bool()>& done) {
    const time_point until = now + for_seconds(s);
    while (!done() && now < until && violation.empty()) run_until(std::min(until, now + for_seconds(0.05)));
    return done();
  }

  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(draw_.uniform()); }
  bool chance(double p) { return p > 0 && static_cast<double>(draw_.uniform()) < p; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(draw_.below(n)); }

  // ---- processes -------------------------------------------------------------------------------------------------------

  template <class F>
  void call(host& h, F f) {
    if (!h.process) return;
    f(*h.process);
    if (!h.dying) poll(h);
    if (!h.dying) return;
    ++crashes;
    crash(h);
    h.dying = false;
    if (restart_after > 0) after(uniform(0.1, restart_after), [this, &h] { boot(h); });
  }

  void note(const event& e) {
    if (log) log(e);
    if (e.what == event::commit && e.round > newest) newest = e.round;
    auto wrong = check.check(e);
    if (wrong && violation.empty()) violation = *wrong;
  }

  /// All that run and were not asked to leave hold the newest round.
  bool agreed() const {
    for (const auto& h : hosts) {
      if (h->gone) continue;
      if (!h->process || !h->process->durable().newest) return false;
      if (h->process->durable().newest->round < newest) return false;
    }
    return true;
  }

  options common;
  chaos mischief;
  checker check;
  time_point now;
  std::vector<std::unique_ptr<host>> hosts;
  std::string violation;
  std::function<void(const event&)> log;
  /// Changes what a liar sends. False: it does not send it after all.
  std::function<bool(std::size_t from, std::size_t to, std::vector<std::byte>&)> forge;
  std::function<void(const host&, const view&, std::uint64_t& state)> cheat;  ///< changes what a peer makes of an exchange
  std::uint64_t newest = 0, messages = 0, crashes = 0, steps = 0;
  double latency = 0.02;
  double training_time = 2;
  std::uint64_t brings = 0;  ///< samples that a trainer adds in a round; 0: one to eight
  double transfer_time = 0.5;
  double restart_after = 10;
  bool keep_training = true;
  bool peace = false;  ///< who leaves comes back: it may have been the last member
  static constexpr std::uint64_t first_state = 4711;

 private:
  struct timed {
    time_point when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const timed& other) const { return std::pair{other.when, other.order} < std::pair{when, order}; }
  };

  void up_at(std::size_t me, std::size_t other, std::uint64_t number) {
    const std::uint64_t life = hosts[me]->life;
    after(latency * uniform(0.1, 0.5), [this, me, other, number, life] {
      if (hosts[me]->life != life || between(me, other).number != number || !between(me, other).up) return;
      call(*hosts[me], [&](protocol& p) { p.peer_up(hosts[other]->id, address(other), now); });
    });
  }

  // -- planted bugs on the wire

  void tamper(std::size_t from, std::size_t to, std::vector<std::byte>& bytes) {
    const std::set<planted> here{planted::forged_votes, planted::hidden_votes, planted::any_leader};
    if (!here.contains(mischief.bug) || !hosts[to]->process) return;
    const auto& d = hosts[to]->process->durable();
    const membership::detail::base_record base{d.newest ? &*d.newest : nullptr, hosts[to]->process->newest_chain()};
    auto m = membership::detail::decode_message(common.run, bytes, base);
    if (auto* r = m ? std::get_if<membership::detail::report>(&*m) : nullptr; r != nullptr && !r->partial) {
      if (mischief.bug == planted::hidden_votes) r->accepted.reset();
      if (mischief.bug == planted::any_leader) r->promised_to = hosts[to]->id;
      bytes = membership::detail::encode(common.run, *m, base);
    }
    if (m && std::holds_alternative<membership::detail::vote>(*m) && mischief.bug == planted::forged_votes) {
      for (auto& other : hosts) {
        if (other->index == from || other->index == to || !between(to, other->index).up) continue;
        call(*hosts[to], [&](protocol& p) { p.message(other->id, bytes, now); });
        break;
      }
    }
  }

  // -- trainers

  void later(host& h, double s, std::function<void()> what);
  void poll(host& h);

  /// After a commit: what was trained and is still ours to contribute stays.
  void rebase(host& h);

  void hold(host& h);
  void fetch(host& h, std::uint64_t round, std::uint64_t state, const std::vector<located_peer>& holders);
  void adopt(host& h, const situation& s);
  void poll_again(host& h);
  double unhurried();
  void train(host& h);
  void offer(host& h);

  // -- the exchange: all of the view have to enter, then each ends a little later, unless somebody is lost meanwhile

  struct exchange {
    std::shared_ptr<const view> who;
    std::set<net::peer_id> entered;
    bool running = false;
  };

  void enter(host& h, const view& v);
  void time_out(host& h, const exchange& x);
  void finish(host& h, const view& v);

  /// Ranks beside ours in a ring.
  static std::vector<std::size_t> neighbours(const host& h, const view& v);

  std::vector<net::peer_id> bad_links(host& h, const view& v);

  /// A data message of the attempt. The planted bug lets in one of an earlier attempt.
  void note_update(host& h, const view& v);

  static std::uint64_t next_state(std::uint64_t parent, const view& v);

  host* find(net::peer_id id) { return id < 100 || id - 100 >= hosts.size() ? nullptr : hosts[id - 100].get(); }

  std::priority_queue<timed> queue_;
  std::uint64_t order_ = 0;
  rng draw_;
  std::map<std::pair<std::size_t, std::size_t>, link> links_;
  std::map<std::pair<ballot, std::uint64_t>, exchange> exchanges_;
};

inline void host::send(net::peer_id to, std::vector<std::byte> message) {
  sent += message.size();
  if (!dying) world.deliver(index, to - 100, std::move(message));
}

inline void host::dial(const std::string& address) {
  if (dying) return;
  const auto other = static_cast<std::size_t>(std::stoul(address.substr(4)));
  world.after(world.latency * world.uniform(1, 3), [this, other, mine = life] {
    if (life == mine && process && other < world.hosts.size()) world.connect(index, other);
  });
}

inline void host::drop(net::peer_id peer, const std::string&) {
  if (!dying) world.break_link(index, peer - 100, 0.05);
}

inline bool host::persist(const durable_record& record) {
  if (dying) return true;
  const bool before = world.chance(world.mischief.crash / 2);
  if (!before && world.chance(world.mischief.disk)) return false;
  if (!before && world.mischief.bug != planted::no_persist) stored = encode(record);
  dying = before || world.chance(world.mischief.crash / 2);
  return true;
}

inline void host::wake_at(time_point when) {
  if (dying || when == wake_when) return;
  wake_when = when;
  if (when == no_deadline) return;
  world.at(when, [this, when, mine = life] {
    if (life != mine || wake_when != when) return;
    wake_when = no_deadline;
    world.call(*this, [&](protocol& p) { p.wake(world.now); });
  });
}

inline void host::note(const event& e) {
  if (!dying) world.note(e);
}

}  // namespace causeway::test

#include "membership/cluster_trainers.hpp"

#endif  // CAUSEWAY_TESTS_MEMBERSHIP_CLUSTER_HPP
