// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_SWARM_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_SWARM_WORLD_HPP

// A whole swarm in a simulated world: the real trainer, memberships, transfer and disk code, and a model whose result can
// be compared with that of the unsplit one.

#include <causeway/comm/every_step.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm_peer.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_skip.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/swarm_group.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/timed_stages.hpp"

namespace support {

using namespace std::chrono_literals;

/// Counts what a process asks of its fabrics, and kills it at one of these calls.
class counted_fabric final : public causeway::net::fabric {
 public:
  counted_fabric(std::shared_ptr<causeway::net::fabric> below, std::function<void()> count)
      : below_{std::move(below)}, count_{std::move(count)} {}
  [[nodiscard]] causeway::net::peer_id id() const override { return below_->id(); }
  [[nodiscard]] std::string address() const override { return below_->address(); }
  void attach(causeway::net::fabric_events* events) override { below_->attach(events); }
  [[nodiscard]] causeway::time_point now() const override { return below_->now(); }
  void dial(const std::string& address) override { below_->dial(address); }
  void close(causeway::net::peer_index link, const std::string& why) override { below_->close(link, why); }
  [[nodiscard]] bool is_up(causeway::net::peer_index link) const override { return below_->is_up(link); }
  void post(causeway::net::peer_index link, std::vector<std::byte> message, bool bulk) override {
    count_();
    below_->post(link, std::move(message), bulk);
  }
  void wake_at(causeway::time_point when) override { below_->wake_at(when); }
  void cancel_before(std::uint32_t epoch) override { below_->cancel_before(epoch); }
  causeway::net::operation send(causeway::net::peer_index link, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) override {
    count_();
    return below_->send(link, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index link, const causeway::net::message_id& id,
                                   std::span<std::byte> buffer) override {
    count_();
    return below_->receive(link, id, buffer);
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) override {
    if (deadline > now()) count_();
    return below_->wait(op, deadline);
  }
  [[nodiscard]] bool done(causeway::net::operation op) const override { return below_->done(op); }
  void locked(const std::function<void()>& what) override { below_->locked(what); }
  causeway::result<bool> block(const std::function<bool()>& done, causeway::time_point deadline) override {
    count_();
    return below_->block(done, deadline);
  }
  [[nodiscard]] causeway::traffic stats() const override { return below_->stats(); }
  [[nodiscard]] std::string describe_waits() const override { return below_->describe_waits(); }

 private:
  std::shared_ptr<causeway::net::fabric> below_;
  std::function<void()> count_;
};

struct swarm_world_options {
  std::vector<std::vector<double>> speeds{{1, 1}, {1, 1}};  ///< by stage: of its peers
  std::uint64_t steps = 3;
  std::int64_t micro_batches = 8;
  std::int64_t blocks_per_stage = 2;
  double block_seconds = 0;  ///< of a host of speed 1; the forward, and each half of the backward
  std::uint64_t seed = 1;
  causeway::sim::link_options link{.latency = 5ms};
  std::uint32_t window = 2;
  causeway::duration rebalance_every{0};
  std::uint32_t victim = UINT32_MAX;  ///< dies at its `dies_at`th network call
  std::uint64_t dies_at = 0;
  causeway::duration back_after{0};                 ///< the victim is started again; 0: not
  std::vector<std::uint32_t> late{};                ///< hosts that are not booted with the rest
  std::function<void(const std::string&)> trace{};  ///< every line that a peer logs
};

/// Stage s of the run has hosts first(s), first(s) + 1, ...
template <class Router = causeway::stage::routing::least_load>
class swarm_world {
 public:
  using peer_type = causeway::parallel::swarm_peer<Router>;

  explicit swarm_world(swarm_world_options options, Router router = Router{})
      : options_{std::move(options)}, router_{std::move(router)}, world_{world_options()} {
    for (std::uint32_t s = 0; s < stages(); ++s) {
      for (const double speed : options_.speeds[s]) {
        const auto host = world_.add_host({.speed = speed});
        stage_of_.push_back(s);
        disks_.emplace_back(causeway::sim::disk_options{.seed = causeway::mix(options_.seed, host)});
        world_.set_storage(host, causeway::io::any_storage{causeway::io::basic_file_storage{disks_.back()}});
      }
    }
    if (options_.trace) {
      world_.set_log([this](causeway::time_point t, std::uint32_t host, causeway::severity, std::string_view text) {
        options_.trace(std::to_string(causeway::seconds(t.since_start)) + " host " + std::to_string(host) + ": " +
                       std::string{text});
      });
    }
    for (std::uint32_t s = 0; s < stages(); ++s) founders_.push_back(first(s));
    results_.resize(hosts());
  }

  struct result_of_host {
    bool finished = false;
    std::vector<float> parameters;
    std::vector<double> losses;              ///< of the steps that it took
    std::vector<causeway::time_point> ends;  ///< when
    std::string error;
    std::uint64_t rerouted = 0;
    std::uint64_t computed = 0;  ///< micro-batches
    std::uint64_t calls = 0;     ///< of the network
  };

  [[nodiscard]] std::uint32_t stages() const { return static_cast<std::uint32_t>(options_.speeds.size()); }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(stage_of_.size()); }
  [[nodiscard]] std::uint32_t first(std::uint32_t stage) const {
    return static_cast<std::uint32_t>(std::find(stage_of_.begin(), stage_of_.end(), stage) - stage_of_.begin());
  }
  causeway::sim::world& world() { return world_; }
  causeway::sim::disk& disk(std::uint32_t host) { return disks_[host]; }
  result_of_host& at(std::uint32_t host) { return results_[host]; }
  [[nodiscard]] std::uint32_t at_stage(std::uint32_t stage) const {
    return static_cast<std::uint32_t>(std::count(stage_of_.begin(), stage_of_.end(), stage));
  }
  [[nodiscard]] std::uint32_t finished() const {
    return static_cast<std::uint32_t>(std::count_if(results_.begin(), results_.end(), [](auto& r) { return r.finished; }));
  }

  void boot() {
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) boot(h);
    }
  }
  void boot(std::uint32_t host) {
    world_.boot(host, [this](causeway::sim::process& p) { live(p); });
  }
  /// Until all live hosts of `wanted` have finished, or the time is over.
  void run(causeway::duration end = 1h) { world_.run_until(causeway::time_point{end}); }
  std::uint32_t wanted = UINT32_MAX;  ///< hosts that have to finish; the default is all

  /// What the parameters of a stage must be at the end, and the loss of every step: from the unsplit model.
  struct reference {
    std::vector<std::vector<float>> stages;
    std::vector<double> losses;
  };
  /// `but`: a micro-batch of the first step that is left out.
  [[nodiscard]] reference unsplit(std::size_t but = SIZE_MAX) const {
    timed_stages model{blocks(), width, {}, {}};
    reference r;
    causeway::optim::sgd inner;
    causeway::thread_pool pool{1};
    inner.reset(model.parameters().length());
    for (std::uint64_t step = 0; step < options_.steps; ++step) {
      const auto tokens = tokens_of(step);
      auto g = model.parameters().gradients();
      std::fill(g.begin(), g.end(), 0.0F);
      double loss = 0;
      const auto per = static_cast<std::size_t>(length);
      for (std::size_t m = 0; m < tokens.size() / per; ++m) {
        if (step == 0 && m == but) continue;
        const std::span<const std::int32_t> piece{tokens.data() + m * per, per};
        loss += model.forward_backward(piece, piece, 1, 1.0F / static_cast<float>(tokens.size()), 0).value();
      }
      r.losses.push_back(loss / static_cast<double>(tokens.size()));
      inner.step(pool, model.parameters().view(), {.learning_rate = rate});
      model.parameters().touch();
    }
    for (std::uint32_t s = 0; s < stages(); ++s) {
      std::vector<float>& values = r.stages.emplace_back();
      for (std::int64_t b = 0; b < options_.blocks_per_stage; ++b) {
        values.push_back(*model.parameters().value(static_cast<std::size_t>(s * options_.blocks_per_stage + b)));
      }
    }
    return r;
  }

  /// How far the host's parameters are from those, relative to how far training has moved them.
  [[nodiscard]] double distance(std::uint32_t host, const reference& r) const {
    const auto& want = r.stages[stage_of_[host]];
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, std::abs(double(results_[host].parameters.at(i)) - double(want[i])));
    }
    return worst;
  }

  static constexpr std::int64_t width = 4;
  static constexpr std::int64_t length = 4;
  static constexpr float rate = 0.01F;

 private:
  causeway::sim::world_options world_options() const {
    causeway::sim::world_options o;
    o.seed = options_.seed;
    o.link = options_.link;
    return o;
  }
  [[nodiscard]] std::int64_t blocks() const { return options_.blocks_per_stage * stages(); }

  [[nodiscard]] std::vector<std::int32_t> tokens_of(std::uint64_t step) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(options_.micro_batches * length));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(causeway::mix(options_.seed, step, i) % 16);
    }
    return tokens;
  }

  [[nodiscard]] std::shared_ptr<causeway::net::fabric> fabric(causeway::sim::process& p, std::uint64_t id) {
    return std::make_shared<counted_fabric>(p.make_fabric(id), [this, &p] {
      if (results_[p.host()].calls++ != options_.dies_at || p.host() != options_.victim) return;
      world_.kill(p.host());
      if (options_.back_after > 0s) world_.after(options_.back_after, [this, h = p.host()] { world_.restart(h); });
      if (world_.running() == &p) p.sleep(1h);
    });
  }

  causeway::member_options member_options(std::uint32_t host, std::uint32_t stage, bool founds) {
    causeway::member_options o;
    o.protocol.run = causeway::mix(run_id, stage) | 1U;
    o.folder = "member-" + std::to_string(stage);
    o.protocol.expected = 0;
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (stage_of_[h] != stage) continue;
      if (std::find(options_.late.begin(), options_.late.end(), h) == options_.late.end()) ++o.protocol.expected;
      if (h != host && !founds) o.dial.push_back(world_.address(h));
    }
    o.enters_afresh = true;
    o.secret = causeway::mix(options_.seed, host);
    return o;
  }

  void live(causeway::sim::process& p) {
    while (const auto to = serve(p)) stage_of_[p.host()] = *to;  // asked to serve another stage
  }

  std::optional<std::uint32_t> serve(causeway::sim::process& p) {
    using namespace causeway;
    const std::uint32_t host = p.host(), stage = stage_of_[host];
    result_of_host& me = results_[host];
    me.finished = false;
    auto disk = p.storage();
    const std::string folder = "member-" + std::to_string(stage);
    const bool founds = host == founders_[stage] && !disk.read(folder + "/record");
    auto options = member_options(host, stage, founds);
    const auto fresh = mix(options_.seed, host + 1 + 1000 * stage, p.incarnation()) | 1U;
    const auto id = member_identity(p.storage(), folder, options.protocol.run, fresh);
    const auto first_fabric = fabric(p, id);
    parallel::swarm_options so;
    so.run = run_id;
    so.stage = stage;
    so.stages = stages();
    so.micro_batches = options_.micro_batches;
    so.window = options_.window;
    so.rebalance_every = options_.rebalance_every;
    for (std::uint32_t h = 0; h < hosts(); ++h) {
      if (h != host) so.dial.push_back(second_address(h));
    }
    const auto swarm_peer = std::make_shared<peer_type>(fabric(p, id), so, router_, p.log());
    options.called_away = [swarm_peer] { return swarm_peer->called_away(); };
    auto group = member::make(first_fabric, p.storage(), options, p.log());
    if (!group) {
      me.error = group.error().text();
      return std::nullopt;
    }
    environment env;
    env.clock = p.clock();
    env.log = p.log();
    env.group = std::make_shared<swarm_group>(*group, swarm_peer);
    block_seconds time{options_.block_seconds, options_.block_seconds, options_.block_seconds, [&p](double s) {
                         if (s > 0) p.compute(std::chrono::duration_cast<duration>(std::chrono::duration<double>(s)));
                       }};
    const nn::block_range range{stage * options_.blocks_per_stage, (stage + 1) * options_.blocks_per_stage};
    timed_stages model{blocks(), width, nn::model_part{range}, time};
    trainer_options to;
    to.learning_rate = optim::constant{rate};
    to.clip_norm = 0;
    auto trainer = make_trainer(std::move(model), std::move(env), to, comm::every_step<>{}, optim::sgd{}, fault::quorum{},
                                parallel::swarm{swarm_peer});
    const auto outcome = train(p, trainer, me);
    me.rerouted = swarm_peer->rerouted();
    me.parameters.clear();
    for (std::int64_t b = 0; b < options_.blocks_per_stage; ++b) {
      me.parameters.push_back(*trainer.model().parameters().value(static_cast<std::size_t>(b)));
    }
    if (!outcome) me.error = outcome.error().text();
    if (!outcome) return swarm_peer->asked_to_move();
    me.finished = true;
    if (finished() >= std::min(wanted, hosts())) world_.end_run();
    p.sleep(10h);  // stays to help those who are behind
    return std::nullopt;
  }

  template <class Trainer>
  causeway::result<void> train(causeway::sim::process& p, Trainer& trainer, result_of_host& me) {
    CAUSEWAY_TRY(trainer.start());
    while (trainer.context().step() < options_.steps) {
      const auto tokens = tokens_of(trainer.context().step());
      CAUSEWAY_ASSIGN(const auto report, trainer.step({tokens, tokens, options_.micro_batches}));
      me.losses.resize(options_.steps);
      me.losses[report.step - 1] = report.loss;
      me.ends.push_back(p.now());
    }
    return {};
  }

  [[nodiscard]] std::string second_address(std::uint32_t host) {
    std::string a = world_.address(host);
    a.back() = '2';
    return a;
  }

  static constexpr std::uint64_t run_id = 4711;

  swarm_world_options options_;
  Router router_;
  std::vector<std::uint32_t> stage_of_;
  std::vector<std::uint32_t> founders_;  // of the stages
  std::vector<result_of_host> results_;
  std::deque<causeway::sim::disk> disks_;
  causeway::sim::world world_;  // last: its processes refer to the rest
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_SWARM_WORLD_HPP
