// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_ELASTIC_HPP
#define CAUSEWAY_TESTS_SUPPORT_ELASTIC_HPP

// A run whose peers come and go, whole, in a simulated world: the real trainer, membership, transfer and disk code, a model
// that can be worked out on paper. Every event goes through the checker.

#include <causeway/fault/quorum.hpp>
#include <causeway/membership/checker.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/refound.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/altered_fabric.hpp"
#include "support/counted_fabric.hpp"
#include "support/distinct_calls.hpp"
#include "support/quadratic.hpp"

namespace support {

struct elastic_options {
  std::uint32_t peers = 8;
  std::uint32_t expected = 0;  ///< peers that the founder waits for; 0: all
  std::uint64_t seed = 1;
  std::uint64_t batch = 2;                                       ///< samples per inner step
  std::uint64_t steps_per_round = 3;                             ///< what a member's quota lasts for
  std::uint64_t rounds = 10;                                     ///< budget, in rounds of all peers
  causeway::duration step_time = std::chrono::milliseconds{50};  ///< of a host of speed 1
  std::int64_t size = 37;                                        ///< parameters
  std::uint64_t warmup = 0;            ///< steps in which the learning rate grows; 0: it is constant
  causeway::duration patience{0};      ///< of who finds nobody; 0: no end
  bool trainer_ends = false;           ///< when all is done, while its membership stays
  std::uint32_t store_every = 1;       ///< rounds between copies of the state on disk
  causeway::sim::host_options host{};  ///< of every host
  causeway::sim::world_options world{};
  std::function<void(std::string_view)> trace{};  ///< every line that a peer logs
  /// Called at every point of a round that a peer passes; true: the peer dies there.
  std::function<bool(std::uint32_t host, std::string_view point)> dies_at{};
  /// Called at every call of a peer's network; true: the peer dies there.
  std::function<bool(std::uint32_t host)> dies_at_call{};
  /// Called before every step with the parameters of a peer, which it may spoil.
  std::function<void(std::uint32_t host, std::uint64_t round, std::span<float> parameters)> spoils{};
  /// Called before every step with what a peer is about to train on, and its parameters.
  std::function<void(std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters)>
      watches{};
  /// What is wrong with a peer's process.
  std::function<misbehaviour(causeway::sim::process& p)> misbehaves{};
};

/// What a run asks of a peer's trainer, whatever its policy: so that the run is compiled once for all policies.
class member_trainer {
 public:
  member_trainer() = default;
  member_trainer(const member_trainer&) = delete;
  member_trainer& operator=(const member_trainer&) = delete;
  virtual ~member_trainer() = default;

  virtual causeway::result<void> start() = 0;
  virtual causeway::result<std::vector<std::uint64_t>> draw(std::uint64_t samples) = 0;
  virtual causeway::result<void> step(const causeway::batch& b) = 0;
  virtual std::span<float> parameters() = 0;
  virtual std::span<const float> shared_parameters() = 0;
  virtual std::uint64_t round() = 0;
  /// Samples of the next step, where that is not for all peers alike.
  virtual std::optional<std::uint64_t> batch() = 0;
};

template <class Trainer>
class held_member_trainer final : public member_trainer {
 public:
  template <class Make>
  explicit held_member_trainer(Make&& make) : trainer_{make()} {}

  causeway::result<void> start() override { return trainer_.start(); }
  causeway::result<std::vector<std::uint64_t>> draw(std::uint64_t samples) override { return trainer_.draw(samples); }
  causeway::result<void> step(const causeway::batch& b) override {
    CAUSEWAY_TRY(trainer_.step(b));
    return {};
  }
  std::span<float> parameters() override { return trainer_.context().parameters(); }
  std::span<const float> shared_parameters() override {
    if constexpr (requires { trainer_.comm().shared_parameters(); }) return trainer_.comm().shared_parameters();
    return {};
  }
  std::uint64_t round() override { return trainer_.context().round(); }
  std::optional<std::uint64_t> batch() override {
    if constexpr (requires { trainer_.comm().trigger().sequences(); }) return trainer_.comm().trigger().sequences();
    return {};
  }

 private:
  Trainer trainer_;
};

class elastic_run {
 public:
  /// `size` parameters.
  using make_trainer =
      std::function<std::unique_ptr<member_trainer>(causeway::environment, causeway::trainer_options, std::int64_t size)>;

  elastic_run(make_trainer make, elastic_options options)
      : make_{std::move(make)},
        options_{std::move(options)},
        checker_{options_.batch * options_.steps_per_round, budget()},
        world_{world_options()} {
    for (std::uint32_t i = 0; i < options_.peers; ++i) {
      const auto host = world_.add_host(options_.host);
      disks_.emplace_back(causeway::sim::disk_options{.seed = causeway::mix(options_.seed, host)});
      world_.set_storage(host, causeway::io::any_storage{causeway::io::basic_file_storage{disks_.back()}});
    }
    if (options_.trace) {
      world_.set_log([this](causeway::time_point t, std::uint32_t host, causeway::severity, std::string_view text) {
        options_.trace(std::to_string(causeway::seconds(t.since_start)) + " host " + std::to_string(host) + ": " +
                       std::string{text});
      });
    }
  }

  causeway::sim::world& world() { return world_; }
  causeway::sim::disk* disk(std::uint32_t host) { return &disks_[host]; }
  /// Of its network calls; with dies_at_call.
  const distinct_calls& distinct(std::uint32_t host) { return distinct_[host]; }

  /// Starts all peers.
  void boot() {
    for (std::uint32_t i = 0; i < options_.peers; ++i) boot(i);
  }
  void boot(std::uint32_t host) {
    world_.boot(host, [this](causeway::sim::process& p) { live(p); });
  }

  /// Runs until every live peer has finished, something is violated, or `end`.
  bool run(causeway::duration end = std::chrono::hours{2}) {
    world_.run_until(causeway::time_point{end});
    return !violation_ && finished() == options_.peers;
  }

  [[nodiscard]] std::uint32_t finished() const {
    std::uint32_t count = 0;
    for (const auto& [host, done] : finished_) count += done ? 1U : 0U;
    return count;
  }
  [[nodiscard]] const std::optional<std::string>& violation() const { return violation_; }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& commits() const { return commits_; }
  /// Parameters that a host ended with.
  [[nodiscard]] const std::vector<float>& parameters(std::uint32_t host) { return parameters_[host]; }
  /// What its policy says is shared, if anything.
  [[nodiscard]] const std::vector<float>& shared_parameters(std::uint32_t host) { return shared_[host]; }
  [[nodiscard]] const std::string& error(std::uint32_t host) { return errors_[host]; }
  [[nodiscard]] std::uint64_t budget() const {
    return options_.rounds * options_.peers * options_.batch * options_.steps_per_round;
  }
  [[nodiscard]] std::uint64_t steps_of(std::uint32_t host) { return steps_[host]; }
  [[nodiscard]] causeway::membership::checker& checker() { return checker_; }
  [[nodiscard]] std::vector<std::string>& history() { return history_; }

  /// A dead host becomes the founder of run `id`, from what its disk has: everybody who boots from now on is of that run.
  /// What follows is not checked as it happens; `check_branch` does that. Needs keep_events.
  causeway::result<causeway::membership::durable_record> refound(std::uint32_t host, std::uint64_t id) {
    run_id_ = id;
    branched_ = true;
    before_ = causeway::membership::checker::branch_of(before_, events_);
    events_.clear();
    commits_.clear();
    const std::vector<std::string> folders{"member"};
    causeway::io::any_storage storage{causeway::io::basic_file_storage{disks_[host]}};
    CAUSEWAY_ASSIGN(auto founded, causeway::refound(storage, folders, "member", id, causeway::mix(id, host) | 1U));
    events_.push_back(causeway::membership::refound_event(founded));
    return founded;
  }
  [[nodiscard]] std::optional<std::string> check_branch() const {
    const auto all = causeway::membership::checker::branch_of(before_, events_);
    return causeway::membership::checker::check_all(all, options_.batch * options_.steps_per_round, budget());
  }
  /// The identity of a host's newest process.
  [[nodiscard]] std::uint64_t id(std::uint32_t host) { return ids_[host]; }
  /// The newest round that a host's peer held.
  [[nodiscard]] std::uint64_t held_last(std::uint32_t host) { return held_[ids_[host]]; }
  [[nodiscard]] std::uint64_t first_contribution(std::uint32_t host) { return contributed_[ids_[host]]; }
  [[nodiscard]] std::uint64_t first_round_as_member(std::uint32_t host) { return member_since_[ids_[host]]; }
  [[nodiscard]] causeway::time_point last_commit() const { return last_commit_; }
  /// Rounds that were first committed from `begin` to `end`.
  [[nodiscard]] std::size_t rounds_between(causeway::time_point begin, causeway::time_point end) const {
    return static_cast<std::size_t>(std::count_if(committed_at_.begin(), committed_at_.end(),
                                                  [&](const auto& c) { return c.second >= begin && c.second <= end; }));
  }
  [[nodiscard]] causeway::time_point committed_at(std::uint64_t round) const { return committed_at_.at(round); }
  /// When the first round was committed of which the host's newest process is a member; no_deadline: none was.
  [[nodiscard]] causeway::time_point member_at(std::uint32_t host) {
    const auto round = member_since_.find(ids_[host]);
    return round == member_since_.end() ? causeway::no_deadline : committed_at_[round->second];
  }
  /// Bytes that all processes which ended or still run have sent.
  [[nodiscard]] std::uint64_t bytes_sent() const {
    std::uint64_t sum = 0;
    for (const auto& f : fabrics_) sum += f->stats().bytes_sent;
    return sum;
  }

  static constexpr std::uint64_t run_id = 77;

 private:
  causeway::sim::world_options world_options() const {
    auto o = options_.world;
    o.seed = options_.seed;
    return o;
  }

  causeway::member_options member_options(causeway::sim::process& p, bool founds) {
    causeway::member_options o;
    o.protocol.run = run_id_;
    o.protocol.expected = options_.expected > 0 ? options_.expected : options_.peers;
    o.protocol.quota = options_.batch * options_.steps_per_round;
    o.protocol.budget = budget();
    o.patience = options_.patience;
    o.store_every = options_.store_every;
    o.secret = causeway::mix(options_.seed, p.host(), p.incarnation());
    for (std::uint32_t i = 0; i < options_.peers && !founds; ++i) {
      if (i != p.host()) o.dial.push_back(world_.address(i));
    }
    if (options_.dies_at) {
      o.passing = [this, &p](std::string_view point) {
        if (!options_.dies_at(p.host(), point)) return;
        world_.kill(p.host());
        p.sleep(std::chrono::hours{1});
      };
    }
    o.journal = [this](const causeway::membership::event& e) { observe(e); };
    return o;
  }

  void observe(const causeway::membership::event& e) {
    using kind = causeway::membership::event;
    if (e.what == kind::held) held_[e.peer] = e.round;
    for (const auto& c : e.contributions) contributed_.try_emplace(c.peer, e.round);
    for (const auto peer : e.members) member_since_.try_emplace(peer, e.round);
    if (e.what == kind::commit) {
      commits_[e.round] = e.hash;
      committed_at_.try_emplace(e.round, e.at_time);
      last_commit_ = e.at_time;
    }
    if (keep_history) history_.push_back(causeway::membership::to_line(e));
    if (keep_events) events_.push_back(e);
    if (violation_ || branched_) return;
    violation_ = checker_.check(e);
    if (violation_) world_.end_run();
  }

  void live(causeway::sim::process& p) {
    using namespace causeway;
    finished_[p.host()] = false;
    const auto fresh = mix(options_.seed, p.host() + 1, p.incarnation()) | 1U;
    const auto id = member_identity(p.storage(), "member", run_id_, fresh);
    ids_[p.host()] = id;
    auto disk = p.storage();
    const bool founds = p.host() == 0 && !disk.read("member/record");
    std::shared_ptr<net::fabric> fabric = p.make_fabric(id);
    fabrics_.push_back(fabric);
    if (options_.dies_at_call)
      fabric = std::make_shared<counted_fabric>(fabric, [this, &p](fabric_call call) { called(p, call); });
    if (options_.misbehaves) fabric = std::make_shared<altered_fabric>(fabric, options_.misbehaves(p));
    auto group = member::make(fabric, p.storage(), member_options(p, founds), p.log());
    if (!group) return note_error(p, group.error());
    environment env;
    env.clock = p.clock();
    env.log = p.log();
    env.group = *group;
    trainer_options to;
    to.learning_rate = optim::constant{0.05F};
    if (options_.warmup > 0) to.learning_rate = optim::warmup_cosine{0.05F, options_.warmup, 10 * options_.warmup};
    auto trainer = make_(std::move(env), to, options_.size);
    const auto outcome = train(p, *trainer);
    if (!outcome) return note_error(p, outcome.error());
    const std::span<const float> values = trainer->parameters(), shared = trainer->shared_parameters();
    parameters_[p.host()].assign(values.begin(), values.end());
    shared_[p.host()].assign(shared.begin(), shared.end());
    if (options_.trainer_ends) trainer.reset();
    finished_[p.host()] = true;
    if (finished() == options_.peers) world_.end_run();
    p.sleep(std::chrono::hours{10});  // stays to help those who are behind
  }

  void called(causeway::sim::process& p, fabric_call call) {
    distinct_[p.host()].note(call, world_.running() == &p, world_.event_count(), disks_[p.host()].operations());
    if (!options_.dies_at_call(p.host())) return;
    world_.kill(p.host());
    if (world_.running() == &p) p.sleep(std::chrono::hours{1});
  }

  causeway::result<void> train(causeway::sim::process& p, member_trainer& trainer) {
    CAUSEWAY_TRY(trainer.start());
    for (;;) {
      CAUSEWAY_ASSIGN(const auto numbers, trainer.draw(trainer.batch().value_or(options_.batch)));
      if (numbers.empty()) return {};
      std::vector<std::int32_t> tokens;
      for (const std::uint64_t n : numbers) tokens.push_back(static_cast<std::int32_t>(n));
      const auto drawn = static_cast<std::int64_t>(numbers.size()), alike = static_cast<std::int64_t>(options_.batch);
      p.compute(trainer.batch() ? options_.step_time * drawn / alike : options_.step_time);
      if (options_.watches) options_.watches(p.host(), tokens, trainer.parameters());
      if (options_.spoils) options_.spoils(p.host(), trainer.round(), trainer.parameters());
      CAUSEWAY_TRY(trainer.step({tokens, tokens, static_cast<std::int64_t>(tokens.size())}));
      ++steps_[p.host()];
    }
  }

  // A peer that gave up, because its disk failed for instance, is started again a second later, as a service would.
  void note_error(causeway::sim::process& p, const causeway::error& e) {
    const std::uint32_t host = p.host();
    errors_[host] = e.text();
    if (options_.trace) options_.trace("host " + std::to_string(host) + " ended: " + e.text());
    restart_later(host, p.incarnation());
  }

  // A process that ended may still be waiting for its disk.
  void restart_later(std::uint32_t host, std::uint32_t incarnation) {
    world_.after(std::chrono::seconds{1}, [this, host, incarnation] {
      if (world_.incarnation(host) != incarnation) return;
      if (world_.alive(host)) return restart_later(host, incarnation);
      disks_[host].kill();
      world_.restart(host);
    });
  }

 public:
  bool keep_history = false;
  bool keep_events = false;

 private:
  make_trainer make_;
  elastic_options options_;
  causeway::membership::checker checker_;
  std::optional<std::string> violation_;
  std::map<std::uint64_t, std::uint64_t> commits_;
  std::map<std::uint32_t, bool> finished_;
  std::map<std::uint32_t, std::uint64_t> ids_;
  std::map<std::uint64_t, std::uint64_t> held_, contributed_, member_since_;
  std::map<std::uint32_t, std::vector<float>> parameters_, shared_;
  std::map<std::uint32_t, std::string> errors_;
  std::map<std::uint32_t, std::uint64_t> steps_;
  std::vector<std::string> history_;
  std::vector<causeway::membership::event> events_, before_;  // of the run, and of those that it branched off
  std::uint64_t run_id_ = run_id;
  bool branched_ = false;
  std::deque<causeway::sim::disk> disks_;
  causeway::time_point last_commit_;
  std::map<std::uint64_t, causeway::time_point> committed_at_;
  std::vector<std::shared_ptr<causeway::net::fabric>> fabrics_;
  std::map<std::uint32_t, distinct_calls> distinct_;
  causeway::sim::world world_;  // last: its processes refer to the rest
};

/// Trainers whose communication policy `make` gives. `M` is made from the options' size.
template <class Inner = causeway::optim::sgd, class M = quadratic, class MakeComm>
elastic_run::make_trainer elastic_trainers(MakeComm make) {
  return [make](causeway::environment env, causeway::trainer_options to,
                std::int64_t size) -> std::unique_ptr<member_trainer> {
    using model_size = std::conditional_t<std::is_same_v<M, quadratic>, std::int64_t, int>;
    const auto whole = [&] {
      return causeway::make_trainer(trained_as<M>{M{static_cast<model_size>(size)}}, std::move(env), to, make(), Inner{},
                                    causeway::fault::quorum{});
    };
    return std::unique_ptr<member_trainer>{new held_member_trainer<decltype(whole())>{whole}};
  };
}

template <class MakeComm, class Inner = causeway::optim::sgd, class M = quadratic>
class elastic_cluster : public elastic_run {
 public:
  elastic_cluster(MakeComm make, elastic_options options)
      : elastic_run{elastic_trainers<Inner, M>(std::move(make)), std::move(options)} {}
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_ELASTIC_HPP
