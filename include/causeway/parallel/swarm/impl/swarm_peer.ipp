// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP

#include <causeway/parallel/swarm/swarm_peer.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::open(std::uint64_t agreement) {
  if (std::exchange(open_, true)) return;
  my_.run = mix(my_.options.run, agreement,
                mix(my_.options.stages, static_cast<std::uint64_t>(my_.options.micro_batches), my_.options.local_steps));
  my_.fabric->attach(&handler_);
  my_.locked([this] {
    coordinator_.claims_from(my_.fabric->now() + my_.options.heartbeat);
    handler_.heartbeat();
  });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::exchange_means(bool late, gradient_place at) {
  if (table_.is_tied()) {
    return fail(errc::unsupported, "swarm",
                "the first and the last stage each have a part of the table's gradient, which a policy that rounds would "
                "round apart; build the model with untied embeddings, or use comm::every_step without a codec");
  }
  averages_ = true;
  late_ = late;
  work_.compute_at(std::move(at));
  my_.locked([this] {
    if (work_.has_place()) coordinator_.scheduler().peers_differ();
  });
  return {};
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::run(std::uint64_t step, swarm_computer& made) {
  swarm_computer& computer = watch_.computes ? watch_.computes(step, made) : made;
  if (my_.steps_alone()) return run_alone(step, computer);
  work_.begin(swarm_wire::training_turn(step), static_cast<std::uint32_t>(my_.options.micro_batches), computer);
  const auto done = [this] { return coordinator_.may_enter(); };
  CAUSEWAY_TRY(work_.at_place(done, [&] { return work_until(done); }));
  if (averages_) (void)make_mean({});
  if (watch_.steps) watch_.steps();
  return my_.with_lock(
      [&] { return coordinator_.verdict().turn == my_.micro_batches.turn() ? coordinator_.verdict().loss : 0.0; });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::complete(const std::function<bool()>& summoned) {
  if (!my_.steps_alone())
    my_.gradients.restore(work_.computer().gradients(), table_.table_of(work_.computer().gradients()));
  my_.decisions.begin();
  if (swarm_wire::is_local(my_.micro_batches.turn())) {  // all of the steps since the last exchange, most of which are done
    work_.begin(closing_.first, work_.progress().size(), *closing_.second, work_.progress());
  }
  const auto rested = [this] { return my_.fabric->now() >= again_from_; };
  const auto called = [&] { return my_.with_lock(rested) && summoned(); };
  const auto row_of = averages_ ? std::exchange(work_.progress(), {}) : swarm_wire::batch_set{};
  const auto done = [&] { return coordinator_.may_enter() && rested(); };
  CAUSEWAY_TRY(work_.at_place(done, [&] { return work_until(done, called); }));
  CAUSEWAY_TRY(work_.check_contribution());
  if (averages_) return make_mean(row_of);
  return my_.steps_alone() ? work_.step_on_what_was_missing() : result<void>{};
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::end_local_step(std::uint64_t step, swarm_computer& round) {
  const auto per_step = static_cast<std::uint32_t>(my_.options.micro_batches);
  const std::uint32_t before = work_.progress().size();
  swarm_wire::batch_set all{before + per_step};
  for (std::uint32_t m = 0; m < before; ++m) {
    if (work_.progress().has(m)) all.add(m);
  }
  my_.locked([&] {
    for (std::uint32_t m = 0; m < per_step; ++m) {
      if (my_.micro_batches.done().has(m)) all.add(before + m);
    }
  });
  work_.progress() = std::move(all);
  closing_ = {swarm_wire::training_turn(step), &round};
  if (watch_.steps) watch_.steps();
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::run_ends() {
  return my_.options.steps > 0 && my_.with_lock([this] { return my_.step(); }) + 1 >= my_.options.steps;
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::meets_in_groups() {
  my_.locked([this] { my_.in_groups = true; });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::shares_paths(std::uint32_t count,
                                                                 std::function<void(std::uint32_t)> taken,
                                                                 std::function<void(std::uint32_t, std::span<float>)> put) {
  return work_.shares_paths(count, std::move(taken), std::move(put));
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::has_values(bool it_has) {
  my_.locked([&] { my_.has_values = it_has; });
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::evaluate(std::uint64_t step, std::uint32_t pieces,
                                                               swarm_computer& computer,
                                                               std::optional<std::uint32_t> path) {
  if (std::exchange(evaluated_step_, step) != step) evaluations_ = 0;
  if (evaluations_ == swarm_wire::most_evaluations) {
    return fail(errc::invalid_argument, "swarm", "more than a million evaluations between two steps");
  }
  const swarm_work::judged_path judged{work_, computer, path};
  work_.begin(swarm_wire::evaluation_turn(step, evaluations_++), pieces, computer);
  const auto outcome = work_until([this] { return coordinator_.evaluated() || coordinator_.gives_up(); });
  if (!outcome) CAUSEWAY_TRY(leave_evaluation_to_others(outcome.error()));
  const std::optional<double> loss = my_.with_lock([&] { return coordinator_.evaluated(); });
  if (loss) return *loss;
  return fail(errc::cancelled, "swarm", "the others are through with this evaluation, and its loss is lost");
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::is_waited_for() {
  return my_.with_lock([this] { return my_.followed.term != told_by_; });
}

CAUSEWAY_LAZY swarm_holding basic_swarm_peer<Whole>::holding() {
  return my_.with_lock([&] {
    swarm_holding h{my_.step(),        my_.has_sum(),  my_.micro_batches.done(), coordinator_.released(),
                    table_.has_part(), !my_.has_values};
    if (h.done.count() > 0) h.module_path = my_.module_path;
    if (coordinator_.verdict().turn == my_.micro_batches.turn() && coordinator_.verdict().complete != 0)
      h.left_out = coordinator_.verdict().left_out;
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
  const double squares = exchanges_rows() ? work_.sum_of_squares(gradient) : work_.computer().squares();
  if (!std::isfinite(squares)) {
    return fail(errc::non_finite, "stage " + std::to_string(my_.options.stage), "the gradient is not finite");
  }
  kept_ = {my_.step(), squares, my_.decisions.asked()};
  summed_ = sum;
  return swarm_sum{kept_.step, squares, exchanges_rows() ? std::span<float>{} : work_.computer().gradients()};
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::restore_sum(const swarm_sum& kept) {
  my_.locked([&] {
    if (!kept.values.empty()) my_.gradients.keep_sum(kept.step, {kept.values.begin(), kept.values.end()});
    has_summed({kept.step, kept.squares});
  });
}

CAUSEWAY_LAZY result<std::vector<double>> basic_swarm_peer<Whole>::all_summed() {
  const std::uint64_t step = kept_.step;
  const auto g = work_.computer().gradients();
  my_.locked([&] {
    if (!my_.in_groups) my_.gradients.keep_sum(step, {summed_.begin(), summed_.end()});
    has_summed(kept_);
    messenger_.announce();
    coordinator_.after_event();
  });
  const auto total = [&] {
    return table_.may_step() ? my_.decisions.total(my_.directory, my_.options.stage, step) : std::nullopt;
  };
  CAUSEWAY_TRY(work_until([&] { return total().has_value() || my_.directory.left_behind(step); }));  // the barrier
  const auto all = my_.with_lock(total);
  if (!all) return fail(errc::cancelled, "swarm", "the others are steps ahead; taking their state over");
  if (all->asked.size() < kept_.asked.size()) {
    return fail(errc::protocol, "swarm", "another stage exchanges something else; do all run the same policy?");
  }
  table_.leave_table_out(g);
  return swarm_wire::numbers_of(*all, kept_.asked.size());
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::sum(std::span<double> values, const collective::collective_options&) {
  my_.decisions.ask(values);
  if (my_.decisions.asked().size() <= most_asked_) return {};
  return fail(errc::invalid_argument, "policy",
              "it asks the stages for more numbers than it said at its start (stage_peers::will_ask)");
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::committed(bool adopted) {
  work_.progress() = {};
  my_.locked([&] {
    my_.round_is_over(!adopted);
    if (!adopted && my_.closes_a_round()) my_.committed = my_.step() + 1;
    const bool tells = messenger_.tell_committed();
    if (table_.holds_committed(adopted) || tells) coordinator_.after_event();
  });
  if (watch_.commits) watch_.commits();
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::put_table() {
  my_.locked([this] { table_.put_table_into_parameters(); });
  return table_.is_first_of_tied();
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::agreed(std::span<const double> all) {
  norm_ = std::sqrt(all.front());
  my_.decisions.decide(kept_.step, all);
}

CAUSEWAY_LAZY std::uint64_t basic_swarm_peer<Whole>::contributed() {
  return my_.with_lock([&] { return my_.micro_batches.done().count(); });
}

CAUSEWAY_LAZY double basic_swarm_peer<Whole>::seconds_per_micro_batch() {
  return my_.with_lock([&] { return my_.seconds; });
}

CAUSEWAY_LAZY std::optional<std::uint32_t> basic_swarm_peer<Whole>::asked_to_move() {
  return my_.with_lock([&] { return coordinator_.asked_to_move(); });
}

CAUSEWAY_LAZY time_point basic_swarm_peer<Whole>::now() {
  return my_.with_lock([&] { return my_.fabric->now(); });
}

CAUSEWAY_LAZY std::string basic_swarm_peer<Whole>::describe() {
  return my_.with_lock([&] { return coordinator_.describe(); }) + my_.fabric->describe_waits();
}

CAUSEWAY_LAZY std::uint64_t basic_swarm_peer<Whole>::rerouted() {
  return my_.with_lock([&] { return coordinator_.scheduler().rerouted(); });
}

CAUSEWAY_LAZY bool basic_swarm_peer<Whole>::coordinates() {
  return my_.with_lock([&] { return my_.coordinates; });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::make_mean(const swarm_wire::batch_set& row_of) {
  work_.progress() = my_.with_lock([&] { return my_.micro_batches.done(); });
  const auto own = static_cast<float>(std::max(work_.progress().count(), 1U));
  my_.gradients.put_in_mean(static_cast<float>(work_.wanted().count()) / own, work_.computer().gradients());
  if (late_ || work_.progress() == row_of) return {};
  return fail(errc::cancelled, "stage " + std::to_string(my_.options.stage), "what lost peers had was computed first");
}

CAUSEWAY_LAZY result<swarm_part_taken> basic_swarm_peer<Whole>::part_of(std::span<const swarm_holding> all,
                                                                        std::size_t self) {
  const swarm_plan plan = plan_shares(all, my_.step(), work_.wanted(), table_.is_last_of_tied(), late_);
  const bool drops = my_.steps_alone() ? has_doubles(all, plan, self) : averages_ && is_superfluous(all, plan, self);
  if (drops || plan.parts[self] == swarm_part::dropped) work_.drop_everything();
  if (drops && my_.steps_alone()) return swarm_part_taken{.weights = weights_of(all, plan), .gives_up = true};
  if (drops) return work_.without_gradient();
  if (!plan.complete) {
    const bool lacks_part = table_.is_last_of_tied() && plan.adds_part == swarm_plan::none;
    my_.locked([this, asks = lacks_part && self == 0] {
      coordinator_.contradict();
      again_from_ = my_.fabric->now() + look_around;  // who has the rest may be on its way
      if (asks) table_.asks_itself();
      coordinator_.send_report();
      coordinator_.after_event();
    });
    return fail(errc::cancelled, "stage " + std::to_string(my_.options.stage),
                "micro-batches are missing; they are computed first");
  }
  if (exchanges_rows()) return part_of_mean(all, plan);
  my_.gradients.put_in(plan.parts[self], work_.computer().gradients());
  if (plan.adds_part == self) my_.locked([this] { table_.add_part(work_.computer().gradients()); });
  return swarm_part_taken{std::vector(all.size(), 1.0)};  // so that parts are summed
}

CAUSEWAY_LAZY result<swarm_part_taken> basic_swarm_peer<Whole>::part_of_mean(std::span<const swarm_holding> all,
                                                                             const swarm_plan& plan) {
  swarm_part_taken part{.weights = weights_of(all, plan)};
  part.paths = paths_of(all, plan, part.weights);
  const auto at = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum);
  if (at == plan.parts.end()) return part;
  part.result_at = static_cast<std::uint32_t>(at - plan.parts.begin());
  if (my_.with_lock([&] { return my_.has_sum(); })) part.result = my_.gradients.sum();
  return part;
}

CAUSEWAY_LAZY void basic_swarm_peer<Whole>::has_summed(const swarm_wire::stage_sum& what) {
  my_.directory.remember(my_.options.stage, what);
  if (my_.own_sums[0].step != what.step) my_.own_sums[1] = my_.own_sums[0];
  my_.own_sums[0] = what;
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::leave_evaluation_to_others(const error& why) {
  if (why.code != errc::non_finite || !my_.with_lock([&] { return my_.directory.anybody_serves(my_.options.stage); }))
    return why;
  work_.throw_work_away();
  return work_until([this] { return coordinator_.evaluated() || coordinator_.gives_up(); });
}

CAUSEWAY_LAZY result<double> basic_swarm_peer<Whole>::run_alone(std::uint64_t step, swarm_computer& computer) {
  work_.begin(swarm_wire::local_turn(step), static_cast<std::uint32_t>(my_.options.micro_batches), computer);
  if (work_.wanted().count() != my_.micro_batches.done().size()) {
    return fail(errc::invalid_argument, "swarm", "local steps need a router that leaves no stage out");
  }
  CAUSEWAY_TRY(work_until([this] { return coordinator_.local_step_is_over(); }));
  return my_.with_lock([&] {
    if (!coordinator_.declared()) my_.micro_batches.forget();
    told_by_ = my_.followed.term;
    return coordinator_.loss();
  });
}

CAUSEWAY_LAZY result<void> basic_swarm_peer<Whole>::work_until(const std::function<bool()>& done,
                                                               const std::function<bool()>& summoned) {
  waited_ = duration{0};
  say_at_ = my_.options.say_after;
  for (;;) {
    work_.move_tensors();
    std::optional<swarm_task> task;
    bool over = false;
    my_.locked([&] {
      coordinator_.trainer_is_here(my_.fabric->now());
      over = done();
      task = over ? std::nullopt : my_.micro_batches.next();
      if (task) my_.queue.began(my_.micro_batches.queued() - 1);
    });
    if (over) return {};
    if (task) {
      CAUSEWAY_TRY(work_.compute(*task));
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
  const time_point begin = my_.with_lock([&] { return my_.fabric->now(); });
  const auto something = [&] { return done() || work_.has_something_to_do(); };
  CAUSEWAY_ASSIGN(const bool happened,
                  my_.fabric->block(something, begin + std::min({my_.options.say_after, say_at_, most})));
  (void)happened;
  waited_ += my_.with_lock([&] { return my_.fabric->now() - begin; });
  if (waited_ >= say_at_) {
    say_at_ = 2 * waited_;
    my_.log(severity::waiting,
            "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: " + describe());
  }
  return {};
}

#ifdef CAUSEWAY_COMPILED
template class basic_swarm_peer<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_PEER_IPP
