// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_WORK_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_WORK_IPP

#include <causeway/parallel/swarm/swarm_work.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void swarm_work::begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_computer& computer,
                                     swarm_wire::batch_set counted) {
  computer_ = &computer;
  forward_seconds_.clear();
  added_ = 0;
  mailbox_.clear();
  my_.locked([&] {
    my_.fabric->cancel_before(swarm_wire::epoch_of(turn));
    my_.begin_on_path();
    coordinator_.begin(turn, micro_batches, std::move(counted));
  });
}

CAUSEWAY_DECL swarm_wire::batch_set swarm_work::wanted() const {
  swarm_wire::batch_set all{my_.micro_batches.done().size()};
  for (std::uint32_t m = 0; m < all.size(); ++m) {
    if (coordinator_.runs(my_.options.stage, m)) all.add(m);
  }
  return all;
}

CAUSEWAY_DECL result<void> swarm_work::shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                                                    std::function<void(std::uint32_t, std::span<float>)> put) {
  if (my_.options.micro_batches % count != 0) {
    return fail(errc::invalid_argument, "micro_batches",
                std::to_string(my_.options.micro_batches) + " of a global batch for " + std::to_string(count) +
                    " paths, each of which has an equal part of it; use a multiple");
  }
  path_taken_ = std::move(taken);
  put_path_ = std::move(put);
  my_.locked([&] {
    my_.paths = count;
    coordinator_.scheduler().split(count);
  });
  return {};
}

CAUSEWAY_DECL void swarm_work::drop_everything() {
  my_.log(severity::warning, "some of this peer's micro-batches are in another peer's gradient too; it computes anew");
  if (my_.steps_alone()) return leave_with_nothing();
  forget_gradient();
  my_.locked([this] { my_.micro_batches.drop_contributions(); });
}

CAUSEWAY_DECL void swarm_work::throw_work_away() {
  my_.log(severity::warning, "this peer came to values that are not finite: what it has of step " +
                                 std::to_string(my_.step() + 1) +
                                 " is thrown away, and computed again by others or from the last state that was committed");
  my_.locked([this] { coordinator_.count_offence(); });
  leave_with_nothing();
}

CAUSEWAY_DECL void swarm_work::leave_with_nothing() {
  if (computer_ != nullptr) forget_gradient();
  my_.locked([this] {
    if (my_.steps_alone()) my_.micro_batches.set_applied(false);
    progress_ = {};
    clobbered_ = false;
    added_ = 0;
    coordinator_.leave_turn();
  });
}

CAUSEWAY_DECL void swarm_work::forget_gradient() {
  std::fill(computer_->gradients().begin(), computer_->gradients().end(), 0.0F);
  my_.gradients.begin(my_.step());
}

CAUSEWAY_DECL error swarm_work::without_gradient() {
  progress_ = my_.with_lock([&] { return my_.micro_batches.done(); });
  return fail(errc::cancelled, "this peer", "others have a part of its gradient; its row is made again without it");
}

CAUSEWAY_DECL double swarm_work::sum_of_squares(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0, [](double sum, float v) { return sum + double{v} * v; });
}

CAUSEWAY_DECL result<void> swarm_work::step_on_what_was_missing() {
  if (!std::exchange(clobbered_, false)) return {};
  added_ = 0;
  const std::uint32_t pending = my_.with_lock([&] { return my_.micro_batches.pending(); });
  if (pending > 0) {
    CAUSEWAY_TRY(computer_->take_step(static_cast<float>(progress_.size()) / static_cast<float>(pending)));
    my_.locked([&] {
      my_.micro_batches.set_applied(true);
      progress_ = my_.micro_batches.done();
    });
  }
  return fail(errc::cancelled, "stage " + std::to_string(my_.options.stage), "what lost peers had was computed first");
}

CAUSEWAY_DECL result<void> swarm_work::check_contribution() {
  const bool adds = my_.with_lock([&] { return !my_.has_sum() && my_.micro_batches.done().count() > 0; });
  if (!adds || std::isfinite(computer_->squares())) return {};
  return fail(errc::non_finite, "stage " + std::to_string(my_.options.stage), "this peer's gradient is not finite");
}

CAUSEWAY_DECL result<void> swarm_work::at_place(const std::function<bool()>& done,
                                                const std::function<result<void>()>& work) {
  if (!place_ || my_.with_lock(done)) return work();
  const auto outcome = place_([&]() -> result<double> {
    CAUSEWAY_TRY(work());
    return 0.0;
  });
  if (!outcome) return outcome.error();
  return {};
}

CAUSEWAY_DECL void swarm_work::move_tensors() {
  std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> announced, sends;
  std::vector<boundary_bytes> contents;
  auto arrived = mailbox_.collect();
  my_.locked([&] {
    coordinator_.see_news();
    for (auto& a : arrived)
      my_.micro_batches.arrive(a.what.micro_batch, a.what.backward != 0, std::move(a.bytes), a.what.pass);
    announced = handler_.take_announcements();
    for (const auto& s : my_.micro_batches.take_shipments()) {
      const auto link = my_.directory.link_to(s.to);
      if (!link) continue;  // sent again when it is back
      const swarm_wire::tensor_announcement p{my_.micro_batches.turn(), s.micro_batch,
                                              s.backward ? std::uint8_t{1} : std::uint8_t{0}, ++serial_, s.pass};
      my_.fabric->post(*link, swarm_wire::encode(my_.run, p));
      sends.emplace_back(*link, p);
      contents.push_back(s.bytes);
    }
  });
  for (const auto& [link, p] : announced) {
    if (p.micro_batch >= my_.micro_batches.done().size()) continue;
    mailbox_.expect(link, p.data(), p, computer_->most_bytes(input(p.micro_batch, p.backward != 0)));
  }
  for (std::size_t i = 0; i < sends.size(); ++i)
    mailbox_.send(sends[i].first, sends[i].second.data(), std::move(contents[i]));
}

CAUSEWAY_DECL bool swarm_work::has_something_to_do() const {
  return coordinator_.has_news() || mailbox_.any_done() || my_.micro_batches.next().has_value();
}

CAUSEWAY_DECL result<void> swarm_work::compute(const swarm_task& task) {
  if (my_.paths > 0 && !my_.judges) take_module_path();
  if (!task.backward) computer_->forget(task.micro_batch);
  if (task.input) {
    const auto usable = computer_->take_in(input(task.micro_batch, task.backward), task.input);
    if (!usable) return refuse(task, usable.error());
  }
  const time_point begin = my_.with_lock([&] { return my_.fabric->now(); });
  if (task.backward) return compute_back(task, begin);
  CAUSEWAY_ASSIGN(auto out, computer_->forward(output(task.micro_batch, false)));
  my_.locked([&] {
    const time_point end = my_.fabric->now();
    coordinator_.trainer_is_here(end, end - begin);
    forward_seconds_[task.micro_batch] = seconds(end - begin);
    my_.micro_batches.forwarded(task.micro_batch, std::move(out.bytes), task.pass);
    if (my_.in_training()) return;
    my_.micro_batches.contributed(task.micro_batch, out.loss, nullptr, task.pass);
    coordinator_.tell_coordinator(swarm_wire::contributed{my_.micro_batches.turn(), task.micro_batch, 0, out.loss});
    coordinator_.after_event();
  });
  return {};
}

CAUSEWAY_DECL swarm_crossing swarm_work::input(std::uint32_t m, bool backward) const {
  return {m, backward ? my_.options.stage : stage_below(m), backward};
}

CAUSEWAY_DECL swarm_crossing swarm_work::output(std::uint32_t m, bool backward) const {
  return {m, backward ? stage_below(m) : my_.options.stage, backward};
}

CAUSEWAY_DECL std::uint32_t swarm_work::stage_below(std::uint32_t m) const {
  std::uint32_t s = my_.options.stage;
  while (s > 0 && !coordinator_.runs(--s, m)) {
  }
  return s;
}

CAUSEWAY_DECL result<void> swarm_work::compute_back(const swarm_task& task, time_point begin) {
  const std::uint32_t m = task.micro_batch;
  std::uint64_t forgotten = 0;
  bool adds = false;
  my_.locked([&] {
    if (std::exchange(seen_forgotten_, coordinator_.times_forgotten()) != coordinator_.times_forgotten()) added_ = 0;
    forgotten = seen_forgotten_;
    adds = !my_.has_sum() && my_.micro_batches.adds(m);
  });
  CAUSEWAY_ASSIGN(auto back, backward(m, adds));
  my_.locked([&] {
    const time_point end = my_.fabric->now();
    coordinator_.trainer_is_here(end, end - begin);
    if (forgotten != coordinator_.times_forgotten()) return;  // others have been given it
    const double took = time_of(forward_seconds_[m] + seconds(my_.fabric->now() - begin));
    my_.micro_batches.contributed(m, back.loss, std::move(back.bytes), task.pass);
    coordinator_.tell_coordinator(swarm_wire::contributed{my_.micro_batches.turn(), m, took, back.loss});
    coordinator_.after_event();
  });
  return {};
}

CAUSEWAY_DECL double swarm_work::time_of(double took) {
  if (!std::exchange(warm_, true)) return 0;
  my_.seconds = my_.seconds > 0 ? 0.7 * my_.seconds + 0.3 * took : took;
  return took;
}

CAUSEWAY_DECL void swarm_work::take_module_path() {
  const std::uint32_t path = my_.with_lock([this] { return my_.module_path; });
  if (std::exchange(computes_on_, path) == path) return;
  path_taken_(path);
  computer_->replace_parameters([&](std::span<float> to) { put_path_(path, to); });
}

CAUSEWAY_DECL result<swarm_output> swarm_work::backward(std::uint32_t m, bool adds) {
  const auto g = computer_->gradients();
  if (adds && my_.steps_alone() && added_++ == 0) {
    std::fill(g.begin(), g.end(), 0.0F);
    clobbered_ = my_.closes_a_round();
  }
  if (adds) return computer_->backward(output(m, true));
  const std::vector<float> kept{g.begin(), g.end()};
  auto back = computer_->backward(output(m, true));
  std::copy(kept.begin(), kept.end(), g.begin());
  return back;
}

CAUSEWAY_DECL result<void> swarm_work::refuse(const swarm_task& task, const error& why) {
  my_.locked([&] {
    const net::peer_id from = my_.micro_batches.refuse(task.micro_batch, task.backward);
    my_.log(severity::warning, "peer " + std::to_string(from) + " is sent away: micro-batch " +
                                   std::to_string(task.micro_batch) + ": " + why.text());
    if (const auto link = my_.directory.link_to(from)) my_.fabric->close(*link, why.message);
    coordinator_.tell_coordinator(swarm_wire::refusal{my_.micro_batches.turn(), task.micro_batch, from});
    coordinator_.after_event();
  });
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_WORK_IPP
