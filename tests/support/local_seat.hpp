// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
#define CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP

// A peer of a swarm whose peers take local steps, and notes on which micro-batches each of them stepped on and brought to
// the exchange.

#include <causeway/comm/periodic.hpp>
#include <causeway/optim/nesterov.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "support/conformance.hpp"
#include "support/swarm_seat.hpp"

namespace support {

using causeway::parallel::swarm_wire::batch_set;

/// Of a peer, in the round that it is in: what it had stepped on after each local step, and what it offered at last.
struct local_notes {
  std::uint32_t stage = 0;
  std::vector<batch_set> after;
  batch_set offered;
};

/// By stage, of the exchange whose result was kept last: what each peer put in. And all peers' notes.
struct round_notes {
  std::map<std::uint32_t, std::vector<batch_set>> put_in;
  std::deque<local_notes> peers;  ///< one that is started again is another
  /// By one more than the step: what peers committed that all stages came to, where the policy asks them. Of all stages.
  std::map<double, std::set<std::vector<double>>> decided;
};

/// Passes everything on, and notes.
class noting_round : public causeway::parallel::swarm_round {
  using base = causeway::parallel::swarm_round;
  using holding_type = causeway::parallel::swarm_holding;

 public:
  noting_round(std::shared_ptr<base> peer, round_notes& notes)
      : peer_{std::move(peer)}, notes_{notes}, own_{notes.peers.emplace_back()} {
    own_ = {peer_->options().stage, {}, {}};
  }

  [[nodiscard]] const causeway::parallel::swarm_options& options() const noexcept override { return peer_->options(); }
  void open(std::uint64_t agreement) override { peer_->open(agreement); }
  void tie(causeway::parallel::swarm_tied_table table) override { peer_->tie(std::move(table)); }
  causeway::result<void> exchange_means(bool late, causeway::parallel::gradient_place at) override {
    return peer_->exchange_means(late, std::move(at));
  }
  void committed(bool adopted) override {
    peer_->committed(adopted);
    std::vector<double> last(decided_.size() / sizeof(double));
    std::copy(decided_.begin(), decided_.end(), std::as_writable_bytes(std::span{last}).begin());
    if (last.size() < 3 || last[0] == 0) return;
    last.erase(last.begin() + 1);  // a norm, which each stage rounds as it likes
    notes_.decided[last[0]].insert(last);
  }
  bool put_table() override { return peer_->put_table(); }
  causeway::result<double> evaluate(std::uint64_t step, std::uint32_t n, causeway::parallel::swarm_computer& c,
                                    std::optional<std::uint32_t> path) override {
    return peer_->evaluate(step, n, c, path);
  }
  causeway::result<double> run(std::uint64_t step, causeway::parallel::swarm_computer& c) override {
    return peer_->run(step, c);
  }
  causeway::result<void> complete(const std::function<bool()>& summoned) override { return peer_->complete(summoned); }
  [[nodiscard]] bool called_away() const noexcept override { return peer_->called_away(); }
  [[nodiscard]] bool is_waited_for() override { return peer_->is_waited_for(); }
  [[nodiscard]] holding_type holding() override { return peer_->holding(); }
  causeway::result<causeway::parallel::swarm_part_taken> take_part(std::span<const holding_type> all,
                                                                   std::size_t self) override {
    auto part = peer_->take_part(all, self);
    own_.offered = all[self].done;
    if (!part || part->result_at) return part;
    auto& put_in = notes_.put_in[own_.stage];
    put_in.clear();
    for (const auto& h : all) {
      if (h.done.count() > 0) put_in.push_back(h.done);
    }
    return part;
  }
  causeway::result<causeway::parallel::swarm_sum> keep_sum(std::span<const float> sum,
                                                           std::span<const float> gradient) override {
    return peer_->keep_sum(sum, gradient);
  }
  [[nodiscard]] causeway::time_point now() override { return peer_->now(); }
  void throw_away() override { peer_->throw_away(); }
  void restore_sum(const causeway::parallel::swarm_sum& kept) override { peer_->restore_sum(kept); }
  causeway::result<std::vector<double>> all_summed() override { return peer_->all_summed(); }
  void agreed(std::span<const double> all) override { peer_->agreed(all); }
  causeway::result<void> sum(std::span<double> values, const causeway::collective::collective_options& options) override {
    return peer_->sum(values, options);
  }
  std::span<std::byte> decision(std::size_t most) override { return decided_ = peer_->decision(most); }
  [[nodiscard]] float norm() const override { return peer_->norm(); }
  [[nodiscard]] std::uint64_t contributed() override { return peer_->contributed(); }
  void end_local_step(std::uint64_t step, causeway::parallel::swarm_computer& round) override {
    peer_->end_local_step(step, round);
    if (peer_->progress().size() == static_cast<std::uint32_t>(options().micro_batches)) own_.after.clear();
    own_.after.push_back(peer_->progress());
  }
  [[nodiscard]] bool run_ends() override { return peer_->run_ends(); }
  void meets_in_groups() override { peer_->meets_in_groups(); }
  void meanwhile(std::function<void()> what) override { peer_->meanwhile(std::move(what)); }
  void has_values(bool it_has) override { peer_->has_values(it_has); }
  causeway::result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                                      std::function<void(std::uint32_t, std::span<float>)> put) override {
    return peer_->shares_paths(count, std::move(taken), std::move(put));
  }
  [[nodiscard]] batch_set progress() const override { return peer_->progress(); }
  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() override { return peer_->asked_to_move(); }
  [[nodiscard]] std::string describe() override { return peer_->describe(); }

 private:
  std::shared_ptr<base> peer_;
  round_notes& notes_;
  local_notes& own_;
  std::span<std::byte> decided_;
};

/// Checkpoints after a step, by peer: written by those that take it, read by those that begin.
struct step_checkpoints {
  std::uint64_t after = 0;
  std::map<std::uint64_t, saved_state> by_peer;
};

/// Nesterov outside.
struct nesterov_rounds {
  static auto make(const swarm_schedule& s) {
    const causeway::comm::periodic_options every{.local_steps = s.local_steps, .outer_learning_rate = s.outer_rate};
    return causeway::comm::periodic<>{every, causeway::optim::nesterov{{.momentum = s.momentum}}};
  }
};

/// For swarm_world: local steps of `Inner`, and rounds that `Rounds` makes. A world runs in one thread.
template <class Inner, class Rounds = nesterov_rounds>
struct local_steps {
  static inline round_notes* notes = nullptr;
  static inline step_checkpoints* checkpoints = nullptr;

  template <class Codec, class Router, class Model, class Body>
  static causeway::result<void> take(swarm_seat seat, Router router, Model model, const swarm_schedule& s, Body&& body) {
    using namespace causeway;
    if (notes != nullptr) {
      seat.shown = [](std::shared_ptr<parallel::swarm_round> peer) {
        return std::make_shared<noting_round>(std::move(peer), *notes);
      };
    }
    const std::uint64_t id = seat.swarm->id();
    const auto make = [&](std::shared_ptr<parallel::swarm_round> round, environment env, const trainer_options& to,
                          const auto& fault) {
      auto trainer = make_trainer(std::move(model), std::move(env), to, Rounds::make(s), Inner{}, fault,
                                  parallel::swarm<Codec>{std::move(round)});
      if (checkpoints != nullptr && checkpoints->by_peer.contains(id)) load(trainer, checkpoints->by_peer[id]);
      return trainer;
    };
    const auto watched = [&](auto& trainer, auto& peer) {
      trainer.observe([&trainer, id](const step_report& r) {
        if (checkpoints != nullptr && r.step == checkpoints->after) checkpoints->by_peer[id] = support::save(trainer);
      });
      return body(trainer, peer);
    };
    return take_seat_with(std::move(seat), std::move(router), s, make, watched);
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LOCAL_SEAT_HPP
