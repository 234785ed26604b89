// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP

#include <causeway/parallel/swarm/swarm_peer.hpp>

#include <causeway/parallel/swarm/swarm_parts.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_LAZY basic_swarm_peer<Whole>::basic_swarm_peer(std::shared_ptr<net::fabric> fabric, swarm_options options,
                                                        stage::routing::any_router router, log_sink log)
    : parts_{std::make_unique<basic_swarm_parts<Whole>>(std::move(fabric), std::move(options), std::move(router),
                                                        std::move(log))},
      say_at_{parts_->my.options.say_after} {}

CAUSEWAY_LAZY basic_swarm_peer<Whole>::~basic_swarm_peer() = default;

CAUSEWAY_LAZY const swarm_options& basic_swarm_peer<Whole>::options() const noexcept { return parts_->my.options; }

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::tie(swarm_tied_table table) { parts_->table.tie(std::move(table)); }

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::throw_away() { parts_->work.throw_work_away(); }

CAUSEWAY_LAZY swarm_wire::batch_set basic_swarm_peer<Whole>::progress() const { return parts_->work.progress(); }

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::called_away() const noexcept { return parts_->coordinator.called_away(); }

CAUSEWAY_LAZY std::span<std::byte> basic_swarm_peer<Whole>::decision(std::size_t most) {
  return parts_->my.decisions.memory(most_asked_ = most);
}

CAUSEWAY_LAZY std::optional<swarm_wire::stage_sum> basic_swarm_peer<Whole>::decided() const {
  return parts_->my.decisions.last();
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::exchanges_rows() const { return averages_ || parts_->my.steps_alone(); }

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::open(std::uint64_t agreement) {
  if (std::exchange(open_, true)) return;
  swarm_state& my = parts_->my;
  const swarm_options& o = my.options;
  my.run = mix(o.run, agreement, mix(o.stages, static_cast<std::uint64_t>(o.micro_batches), o.local_steps));
  my.locked([&] { parts_->coordinator.claims_from(my.fabric->now() + o.heartbeat); });
  parts_->listen();
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::exchange_means(bool late, gradient_place at) {
  if (parts_->table.is_tied()) {
    return fail(errc::unsupported, "swarm",
                "the first and the last stage each have a part of the table's gradient, which a policy that rounds would "
                "round apart; build the model with untied embeddings, or use comm::every_step without a codec");
  }
  averages_ = true;
  late_ = late;
  parts_->work.compute_at(std::move(at));
  parts_->my.locked([this] {
    if (parts_->work.has_place()) parts_->coordinator.scheduler().peers_differ();
  });
  return {};
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::run(std::uint64_t step, swarm_computer& made) {
  swarm_computer& computer = watch_.computes ? watch_.computes(step, made) : made;
  if (parts_->my.steps_alone()) return run_alone(step, computer);
  parts_->work.begin(swarm_wire::training_turn(step), static_cast<std::uint32_t>(parts_->my.options.micro_batches),
                     computer);
  const auto done = [this] { return parts_->coordinator.may_enter(); };
  CAUSEWAY_TRY(parts_->work.at_place(done, [&] { return work_until(done); }));
  if (averages_) (void)make_mean({});
  if (watch_.steps) watch_.steps();
  return parts_->my.with_lock([&] {
    return parts_->coordinator.verdict().turn == parts_->my.micro_batches.turn() ? parts_->coordinator.verdict().loss : 0.0;
  });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::complete(const std::function<bool()>& summoned) {
  swarm_state& my = parts_->my;
  if (!my.steps_alone()) {
    const auto g = parts_->work.computer().gradients();
    my.gradients.restore(g, parts_->table.table_of(g));
  }
  my.decisions.begin();
  // All of the steps since the last exchange, most of which are done.
  if (swarm_wire::is_local(my.micro_batches.turn())) {
    parts_->work.begin(closing_.first, parts_->work.progress().size(), *closing_.second, parts_->work.progress());
  }
  const auto rested = [&] { return my.fabric->now() >= again_from_; };
  const auto called = [&] { return my.with_lock(rested) && summoned(); };
  const auto row_of = averages_ ? std::exchange(parts_->work.progress(), {}) : swarm_wire::batch_set{};
  const auto done = [&] { return parts_->coordinator.may_enter() && rested(); };
  CAUSEWAY_TRY(parts_->work.at_place(done, [&] { return work_until(done, called); }));
  CAUSEWAY_TRY(parts_->work.check_contribution());
  if (averages_) return make_mean(row_of);
  return my.steps_alone() ? parts_->work.step_on_what_was_missing() : result<void>{};
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::end_local_step(std::uint64_t step, swarm_computer& round) {
  const auto per_step = static_cast<std::uint32_t>(parts_->my.options.micro_batches);
  const std::uint32_t before = parts_->work.progress().size();
  swarm_wire::batch_set all{before + per_step};
  for (std::uint32_t m = 0; m < before; ++m) {
    if (parts_->work.progress().has(m)) all.add(m);
  }
  parts_->my.locked([&] {
    for (std::uint32_t m = 0; m < per_step; ++m) {
      if (parts_->my.micro_batches.done().has(m)) all.add(before + m);
    }
  });
  parts_->work.progress() = std::move(all);
  closing_ = {swarm_wire::training_turn(step), &round};
  if (watch_.steps) watch_.steps();
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::run_ends() {
  return parts_->my.options.steps > 0 &&
         parts_->my.with_lock([this] { return parts_->my.step(); }) + 1 >= parts_->my.options.steps;
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::meets_in_groups() {
  parts_->my.locked([this] { parts_->my.in_groups = true; });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::shares_paths(std::uint32_t count,
                                                                 std::function<void(std::uint32_t)> taken,
                                                                 std::function<void(std::uint32_t, std::span<float>)> put) {
  return parts_->work.shares_paths(count, std::move(taken), std::move(put));
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::has_values(bool it_has) {
  parts_->my.locked([&] { parts_->my.has_values = it_has; });
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::evaluate(std::uint64_t step, std::uint32_t pieces,
                                                               swarm_computer& computer,
                                                               std::optional<std::uint32_t> path) {
  if (std::exchange(evaluated_step_, step) != step) evaluations_ = 0;
  if (evaluations_ == swarm_wire::most_evaluations) {
    return fail(errc::invalid_argument, "swarm", "more than a million evaluations between two steps");
  }
  const swarm_work::judged_path judged{parts_->work, computer, path};
  parts_->work.begin(swarm_wire::evaluation_turn(step, evaluations_++), pieces, computer);
  const auto outcome = work_until([this] { return parts_->coordinator.evaluated() || parts_->coordinator.gives_up(); });
  if (!outcome) CAUSEWAY_TRY(leave_evaluation_to_others(outcome.error()));
  const std::optional<double> loss = parts_->my.with_lock([&] { return parts_->coordinator.evaluated(); });
  if (loss) return *loss;
  return fail(errc::cancelled, "swarm", "the others are through with this evaluation, and its loss is lost");
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::is_waited_for() {
  return parts_->my.with_lock([this] { return parts_->my.followed.term != told_by_; });
}

CAUSEWAY_LAZY swarm_holding basic_swarm_peer<Whole>::holding() {
  return parts_->my.with_lock([&] {
    swarm_holding h{
        parts_->my.step(),        parts_->my.has_sum(),  parts_->my.micro_batches.done(), parts_->coordinator.released(),
        parts_->table.has_part(), !parts_->my.has_values};
    if (h.done.count() > 0) h.module_path = parts_->my.module_path;
    const swarm_wire::verdict& said = parts_->coordinator.verdict();
    if (said.turn == parts_->my.micro_batches.turn() && said.complete != 0) h.left_out = said.left_out;
    return h;
  });
}

CAUSEWAY_LAZY result<swarm_part_taken> basic_swarm_peer<Whole>::take_part(std::span<const swarm_holding> all,
                                                                          std::size_t self) {
  auto part = part_of(all, self);
  if (watch_.takes_part) watch_.takes_part(all, self, part);
  return part;
}

CAUSEWAY_LAZY result<swarm_sum> basic_swarm_peer<Whole>::keep_sum(std::span<const float> sum,
                                                                  std::span<const float> gradient) {
  const double squares = exchanges_rows() ? parts_->work.sum_of_squares(gradient) : parts_->work.computer().squares();
  if (!std::isfinite(squares)) {
    return fail(errc::non_finite, "stage " + std::to_string(parts_->my.options.stage), "the gradient is not finite");
  }
  kept_ = {parts_->my.step(), squares, parts_->my.decisions.asked()};
  summed_ = sum;
  return swarm_sum{kept_.step, squares, exchanges_rows() ? std::span<float>{} : parts_->work.computer().gradients()};
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::restore_sum(const swarm_sum& kept) {
  parts_->my.locked([&] {
    if (!kept.values.empty()) parts_->my.gradients.keep_sum(kept.step, {kept.values.begin(), kept.values.end()});
    has_summed({kept.step, kept.squares});
  });
}

CAUSEWAY_LAZY result<std::vector<double>> basic_swarm_peer<Whole>::all_summed() {
  const std::uint64_t step = kept_.step;
  const auto g = parts_->work.computer().gradients();
  parts_->my.locked([&] {
    if (!parts_->my.in_groups) parts_->my.gradients.keep_sum(step, {summed_.begin(), summed_.end()});
    has_summed(kept_);
    parts_->messenger.announce();
    parts_->coordinator.after_event();
  });
  const auto total = [&] {
    return parts_->table.may_step() ? parts_->my.decisions.total(parts_->my.directory, parts_->my.options.stage, step)
                                    : std::nullopt;
  };
  CAUSEWAY_TRY(work_until([&] { return total().has_value() || parts_->my.directory.left_behind(step); }));  // the barrier
  const auto all = parts_->my.with_lock(total);
  if (!all) return fail(errc::cancelled, "swarm", "the others are steps ahead; taking their state over");
  if (all->asked.size() < kept_.asked.size()) {
    return fail(errc::protocol, "swarm", "another stage exchanges something else; do all run the same policy?");
  }
  parts_->table.leave_table_out(g);
  return swarm_wire::numbers_of(*all, kept_.asked.size());
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::sum(std::span<double> values, const collective::collective_options&) {
  parts_->my.decisions.ask(values);
  if (parts_->my.decisions.asked().size() <= most_asked_) return {};
  return fail(errc::invalid_argument, "policy",
              "it asks the stages for more numbers than it said at its start (stage_peers::will_ask)");
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::committed(bool adopted) {
  parts_->work.progress() = {};
  parts_->my.locked([&] {
    parts_->my.round_is_over(!adopted);
    if (!adopted && parts_->my.closes_a_round()) parts_->my.committed = parts_->my.step() + 1;
    const bool tells = parts_->messenger.tell_committed();
    if (parts_->table.holds_committed(adopted) || tells) parts_->coordinator.after_event();
  });
  if (watch_.commits) watch_.commits();
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::put_table() {
  parts_->my.locked([this] { parts_->table.put_table_into_parameters(); });
  return parts_->table.is_first_of_tied();
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::agreed(std::span<const double> all) {
  norm_ = std::sqrt(all.front());
  parts_->my.decisions.decide(kept_.step, all);
}

CAUSEWAY_LAZY std::uint64_t basic_swarm_peer<Whole>::contributed() {
  return parts_->my.with_lock([&] { return parts_->my.micro_batches.done().count(); });
}

CAUSEWAY_LAZY double basic_swarm_peer<Whole>::seconds_per_micro_batch() {
  return parts_->my.with_lock([&] { return parts_->my.seconds; });
}

CAUSEWAY_LAZY std::optional<std::uint32_t> basic_swarm_peer<Whole>::asked_to_move() {
  return parts_->my.with_lock([&] { return parts_->coordinator.asked_to_move(); });
}

CAUSEWAY_LAZY time_point basic_swarm_peer<Whole>::now() {
  return parts_->my.with_lock([&] { return parts_->my.fabric->now(); });
}

CAUSEWAY_LAZY std::string basic_swarm_peer<Whole>::describe() {
  return parts_->my.with_lock([&] { return parts_->coordinator.describe(); }) + parts_->my.fabric->describe_waits();
}

CAUSEWAY_LAZY std::uint64_t basic_swarm_peer<Whole>::rerouted() {
  return parts_->my.with_lock([&] { return parts_->coordinator.scheduler().rerouted(); });
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::coordinates() {
  return parts_->my.with_lock([&] { return parts_->my.coordinates; });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::make_mean(const swarm_wire::batch_set& row_of) {
  parts_->work.progress() = parts_->my.with_lock([&] { return parts_->my.micro_batches.done(); });
  const auto own = static_cast<float>(std::max(parts_->work.progress().count(), 1U));
  parts_->my.gradients.put_in_mean(static_cast<float>(parts_->work.wanted().count()) / own,
                                   parts_->work.computer().gradients());
  if (late_ || parts_->work.progress() == row_of) return {};
  return fail(errc::cancelled, "stage " + std::to_string(parts_->my.options.stage),
              "what lost peers had was computed first");
}

CAUSEWAY_LAZY result<swarm_part_taken> basic_swarm_peer<Whole>::part_of(std::span<const swarm_holding> all,
                                                                        std::size_t self) {
  const swarm_plan plan =
      plan_shares(all, parts_->my.step(), parts_->work.wanted(), parts_->table.is_last_of_tied(), late_);
  const bool drops = parts_->my.steps_alone() ? has_doubles(all, plan, self) : averages_ && is_superfluous(all, plan, self);
  if (drops || plan.parts[self] == swarm_part::dropped) parts_->work.drop_everything();
  if (drops && parts_->my.steps_alone()) return swarm_part_taken{.weights = weights_of(all, plan), .gives_up = true};
  if (drops) return parts_->work.without_gradient();
  if (!plan.complete) {
    const bool lacks_part = parts_->table.is_last_of_tied() && plan.adds_part == swarm_plan::none;
    parts_->my.locked([this, asks = lacks_part && self == 0] {
      parts_->coordinator.contradict();
      again_from_ = parts_->my.fabric->now() + look_around;  // who has the rest may be on its way
      if (asks) parts_->table.asks_itself();
      parts_->coordinator.send_report();
      parts_->coordinator.after_event();
    });
    return fail(errc::cancelled, "stage " + std::to_string(parts_->my.options.stage),
                "micro-batches are missing; they are computed first");
  }
  if (exchanges_rows()) return part_of_mean(all, plan);
  parts_->my.gradients.put_in(plan.parts[self], parts_->work.computer().gradients());
  if (plan.adds_part == self) parts_->my.locked([this] { parts_->table.add_part(parts_->work.computer().gradients()); });
  return swarm_part_taken{std::vector(all.size(), 1.0)};  // so that parts are summed
}

CAUSEWAY_LAZY result<swarm_part_taken> basic_swarm_peer<Whole>::part_of_mean(std::span<const swarm_holding> all,
                                                                             const swarm_plan& plan) {
  swarm_part_taken part{.weights = weights_of(all, plan)};
  part.paths = paths_of(all, plan, part.weights);
  const auto at = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum);
  if (at == plan.parts.end()) return part;
  part.result_at = static_cast<std::uint32_t>(at - plan.parts.begin());
  if (parts_->my.with_lock([&] { return parts_->my.has_sum(); })) part.result = parts_->my.gradients.sum();
  return part;
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::has_summed(const swarm_wire::stage_sum& what) {
  parts_->my.directory.remember(parts_->my.options.stage, what);
  if (parts_->my.own_sums[0].step != what.step) parts_->my.own_sums[1] = parts_->my.own_sums[0];
  parts_->my.own_sums[0] = what;
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::leave_evaluation_to_others(const error& why) {
  if (why.code != errc::non_finite ||
      !parts_->my.with_lock([&] { return parts_->my.directory.anybody_serves(parts_->my.options.stage); }))
    return why;
  parts_->work.throw_work_away();
  return work_until([this] { return parts_->coordinator.evaluated() || parts_->coordinator.gives_up(); });
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::run_alone(std::uint64_t step, swarm_computer& computer) {
  parts_->work.begin(swarm_wire::local_turn(step), static_cast<std::uint32_t>(parts_->my.options.micro_batches), computer);
  if (parts_->work.wanted().count() != parts_->my.micro_batches.done().size()) {
    return fail(errc::invalid_argument, "swarm", "local steps need a router that leaves no stage out");
  }
  CAUSEWAY_TRY(work_until([this] { return parts_->coordinator.local_step_is_over(); }));
  return parts_->my.with_lock([&] {
    if (!parts_->coordinator.declared()) parts_->my.micro_batches.forget();
    told_by_ = parts_->my.followed.term;
    return parts_->coordinator.loss();
  });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::work_until(const std::function<bool()>& done,
                                                               const std::function<bool()>& summoned) {
  waited_ = duration{0};
  say_at_ = parts_->my.options.say_after;
  for (;;) {
    parts_->work.move_tensors();
    std::optional<swarm_task> task;
    bool over = false;
    parts_->my.locked([&] {
      parts_->coordinator.trainer_is_here(parts_->my.fabric->now());
      over = done();
      task = over ? std::nullopt : parts_->my.micro_batches.next();
      if (task) parts_->my.queue.began(parts_->my.micro_batches.queued() - 1);
    });
    if (over) return {};
    if (task) {
      CAUSEWAY_TRY(parts_->work.compute(*task));
      waited_ = duration{0};
    } else if (summoned && summoned()) {
      return {};
    } else {
      if (meanwhile_) meanwhile_();
      CAUSEWAY_TRY(wait_a_while(done, meanwhile_ ? a_moment : summoned ? look_around : duration::max()));
    }
  }
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::wait_a_while(const std::function<bool()>& done, duration most) {
  const time_point begin = parts_->my.with_lock([&] { return parts_->my.fabric->now(); });
  const auto something = [&] { return done() || parts_->work.has_something_to_do(); };
  CAUSEWAY_ASSIGN(const bool happened,
                  parts_->my.fabric->block(something, begin + std::min({parts_->my.options.say_after, say_at_, most})));
  (void)happened;
  waited_ += parts_->my.with_lock([&] { return parts_->my.fabric->now() - begin; });
  if (waited_ >= say_at_) {
    say_at_ = 2 * waited_;
    parts_->my.log(severity::waiting,
                   "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: " + describe());
  }
  return {};
}

#ifdef CAUSEWAY_COMPILED
template class basic_swarm_peer<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP
