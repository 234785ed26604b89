// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP

// What a peer of a swarm computes, and the tensors that it moves: the tasks of its micro-batches, what goes into its
// gradients and out of them, and boundary tensors from and to the stages beside it. The part of swarm_peer.hpp that waits
// for nobody.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/swarm_message_handler.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// For the trainer's thread, without the fabric's lock, except where something else is said.
template <stage::routing::Router Router>
class swarm_work : protected swarm_message_handler<Router> {
 protected:
  using base = swarm_message_handler<Router>;
  using base::fabric_, base::options_, base::log_, base::directory_, base::micro_batches_;

  swarm_work(std::shared_ptr<net::fabric> fabric, swarm_options options, Router router, log_sink log)
      : base{std::move(fabric), std::move(options), std::move(router), std::move(log)}, mailbox_{*fabric_} {}
  ~swarm_work() override = default;

  template <class F>
  void locked(F&& what) {
    fabric_->locked(std::forward<F>(what));
  }
  /// What `f` gives, with the lock held.
  template <class F>
  auto with_lock(F&& f) {
    decltype(f()) value{};
    locked([&] { value = f(); });
    return value;
  }

  // ---- a turn ---------------------------------------------------------------------------------------------------------

  /// As swarm_coordinator::begin, for a computer that outlives the turn.
  void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_computer& computer,
             swarm_wire::batch_set counted = {}) {
    computer_ = &computer;
    forward_seconds_.clear();
    added_ = 0;
    mailbox_.clear();
    locked([&] {
      fabric_->cancel_before(swarm_wire::epoch_of(turn));
      this->begin_on_path();
      base::begin(turn, micro_batches, std::move(counted));
    });
  }

  /// The micro-batches that pass this stage.
  [[nodiscard]] swarm_wire::batch_set wanted() const {
    swarm_wire::batch_set all{micro_batches_.done().size()};
    for (std::uint32_t m = 0; m < all.size(); ++m) {
      if (this->rule_.runs(this->size(), options_.stage, m)) all.add(m);
    }
    return all;
  }

  /// See swarm_round.
  result<void> shares_paths(std::uint32_t count, std::function<void(std::uint32_t)> taken,
                            std::function<void(std::uint32_t, std::span<float>)> put) {
    if (options_.micro_batches % count != 0) {
      return fail(errc::invalid_argument, "micro_batches",
                  std::to_string(options_.micro_batches) + " of a global batch for " + std::to_string(count) +
                      " paths, each of which has an equal part of it; use a multiple");
    }
    path_taken_ = std::move(taken);
    put_path_ = std::move(put);
    locked([&] {
      this->paths_ = count;
      this->scheduler_.split(count);
    });
    return {};
  }

  /// While it is there, the shared parameters of a path are in the place of those that this peer computes with.
  class judged_path {
   public:
    judged_path(swarm_work& work, swarm_computer& computer, std::optional<std::uint32_t> path)
        : work_{work}, computer_{computer}, judges_{path.has_value() && work.paths_ > 0} {
      if (!judges_) return;
      computer_.replace_parameters([&](std::span<float> to) {
        kept_.assign(to.begin(), to.end());
        work_.put_path_(*path, to);
      });
      work_.locked([this] { work_.judges_ = true; });
    }
    judged_path(const judged_path&) = delete;
    judged_path& operator=(const judged_path&) = delete;
    ~judged_path() {
      if (!judges_) return;
      work_.locked([this] { work_.judges_ = false; });
      computer_.replace_parameters([this](std::span<float> to) { std::copy(kept_.begin(), kept_.end(), to.begin()); });
    }

   private:
    swarm_work& work_;
    swarm_computer& computer_;
    std::vector<float> kept_;
    bool judges_;
  };

  // ---- gradients -----------------------------------------------------------------------------------------------------

  /// The peer's gradient is thrown away, or with local steps all that it has of the turn: others have a part of it.
  void drop_everything() {
    log_(severity::warning, "some of this peer's micro-batches are in another peer's gradient too; it computes anew");
    if (this->steps_alone()) return leave_with_nothing();
    forget_gradient();
    locked([this] { micro_batches_.drop_contributions(); });
  }

  /// What this peer has of the turn came to values that are not finite, or to no purpose.
  void throw_work_away() {
    log_(severity::warning, "this peer came to values that are not finite: what it has of step " +
                                std::to_string(this->step() + 1) +
                                " is thrown away, and computed again by others or from the last state that was committed");
    locked([this] { this->count_offence(); });
    leave_with_nothing();
  }
  void leave_with_nothing() {
    if (computer_ != nullptr) forget_gradient();
    locked([this] {
      if (this->steps_alone()) micro_batches_.set_applied(false);
      progress_ = {};
      clobbered_ = false;
      added_ = 0;
      this->leave_turn();
    });
  }

  void forget_gradient() {
    std::fill(computer_->gradients().begin(), computer_->gradients().end(), 0.0F);
    this->gradients_.begin(this->step());
  }

  /// Where a policy exchanges gradients: all of it was dropped, and the policy's row of it with that.
  error without_gradient() {
    progress_ = with_lock([&] { return micro_batches_.done(); });
    return fail(errc::cancelled, "this peer", "others have a part of its gradient; its row is made again without it");
  }
  [[nodiscard]] static double sum_of_squares(std::span<const float> values) {
    return std::accumulate(values.begin(), values.end(), 0.0, [](double sum, float v) { return sum + double{v} * v; });
  }

  /// With local steps: an inner step on what was computed in the closing turn, if anything was. errc::cancelled if so: this
  /// peer's parameters are others than when the exchange was prepared.
  result<void> step_on_what_was_missing() {
    if (!std::exchange(clobbered_, false)) return {};
    added_ = 0;
    const std::uint32_t pending = with_lock([&] { return micro_batches_.pending(); });
    if (pending > 0) {
      CAUSEWAY_TRY(computer_->take_step(static_cast<float>(progress_.size()) / static_cast<float>(pending)));
      locked([&] {
        micro_batches_.set_applied(true);
        progress_ = micro_batches_.done();
      });
    }
    return fail(errc::cancelled, "stage " + std::to_string(options_.stage), "what lost peers had was computed first");
  }

  /// What cannot be added goes into no sum: nobody could take it out again.
  result<void> check_contribution() {
    const bool adds = with_lock([&] { return !this->has_sum() && micro_batches_.done().count() > 0; });
    if (!adds || std::isfinite(computer_->squares())) return {};
    return fail(errc::non_finite, "stage " + std::to_string(options_.stage), "this peer's gradient is not finite");
  }

  /// `work`, until `done`, where the gradients are to be of.
  template <class Done, class Work>
  result<void> at_place(const Done& done, Work&& work) {
    if (!place_ || with_lock(done)) return work();
    const auto outcome = place_([&]() -> result<double> {
      CAUSEWAY_TRY(work());
      return 0.0;
    });
    if (!outcome) return outcome.error();
    return {};
  }

  // ---- tensors --------------------------------------------------------------------------------------------------------

  /// Takes in what has come, expects what was announced, sends what is due. What broke is passed over: its sender sends it
  /// again, or another peer does.
  void move_tensors() {
    std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> announced, sends;
    std::vector<boundary_bytes> contents;
    auto arrived = mailbox_.collect();
    locked([&] {
      this->news_ = false;
      for (auto& a : arrived)
        micro_batches_.arrive(a.what.micro_batch, a.what.backward != 0, std::move(a.bytes), a.what.pass);
      announced = this->take_announcements();
      for (const auto& s : micro_batches_.take_shipments()) {
        const auto link = directory_.link_to(s.to);
        if (!link) continue;  // sent again when it is back
        const swarm_wire::tensor_announcement p{micro_batches_.turn(), s.micro_batch,
                                                s.backward ? std::uint8_t{1} : std::uint8_t{0}, ++serial_, s.pass};
        fabric_->post(*link, swarm_wire::encode(this->run_, p));
        sends.emplace_back(*link, p);
        contents.push_back(s.bytes);
      }
    });
    for (const auto& [link, p] : announced) {
      if (p.micro_batch >= micro_batches_.done().size()) continue;
      mailbox_.expect(link, p.data(), p, computer_->most_bytes(input(p.micro_batch, p.backward != 0)));
    }
    for (std::size_t i = 0; i < sends.size(); ++i)
      mailbox_.send(sends[i].first, sends[i].second.data(), std::move(contents[i]));
  }

  /// With the lock: whether something has happened since tensors were moved, or a task waits.
  [[nodiscard]] bool has_something_to_do() const {
    return this->news_ || mailbox_.any_done() || micro_batches_.next().has_value();
  }

  // ---- computing ------------------------------------------------------------------------------------------------------

  /// A task of its micro-batches. An input that cannot be used is refused, which is no error; errors are the computer's.
  result<void> compute(const swarm_task& task) {
    if (this->paths_ > 0 && !this->judges_) take_module_path();
    if (!task.backward) computer_->forget(task.micro_batch);
    if (task.input) {
      const auto usable = computer_->take_in(input(task.micro_batch, task.backward), task.input);
      if (!usable) return refuse(task, usable.error());
    }
    const time_point begin = with_lock([&] { return fabric_->now(); });
    if (task.backward) return compute_back(task, begin);
    CAUSEWAY_ASSIGN(auto out, computer_->forward(output(task.micro_batch, false)));
    locked([&] {
      const time_point end = fabric_->now();
      this->trainer_is_here(end, end - begin);
      forward_seconds_[task.micro_batch] = seconds(end - begin);
      micro_batches_.forwarded(task.micro_batch, std::move(out.bytes), task.pass);
      if (this->in_training()) return;
      micro_batches_.contributed(task.micro_batch, out.loss, nullptr, task.pass);
      this->tell_coordinator(swarm_wire::contributed{micro_batches_.turn(), task.micro_batch, 0, out.loss});
      this->after_event();
    });
    return {};
  }

  swarm_computer* computer_ = nullptr;
  gradient_place place_;
  // Of the micro-batches since the last exchange: those that this peer has stepped on, or made its row of.
  swarm_wire::batch_set progress_;
  std::function<void()> meanwhile_;                // see swarm_round
  std::function<void(std::uint32_t)> path_taken_;  // and what follows: see swarm_round::shares_paths
  std::function<void(std::uint32_t, std::span<float>)> put_path_;

 private:
  [[nodiscard]] swarm_crossing input(std::uint32_t m, bool backward) const {
    return {m, backward ? options_.stage : stage_below(m), backward};
  }
  [[nodiscard]] swarm_crossing output(std::uint32_t m, bool backward) const {
    return {m, backward ? stage_below(m) : options_.stage, backward};
  }
  // The one before this that the micro-batch passes; 0 for stage 0.
  [[nodiscard]] std::uint32_t stage_below(std::uint32_t m) const {
    std::uint32_t s = options_.stage;
    while (s > 0 && !this->rule_.runs(this->size(), --s, m)) {
    }
    return s;
  }

  result<void> compute_back(const swarm_task& task, time_point begin) {
    const std::uint32_t m = task.micro_batch;
    std::uint64_t forgotten = 0;
    bool adds = false;
    locked([&] {
      if (std::exchange(seen_forgotten_, this->times_forgotten_) != this->times_forgotten_) added_ = 0;
      forgotten = seen_forgotten_;
      adds = !this->has_sum() && micro_batches_.adds(m);
    });
    CAUSEWAY_ASSIGN(auto back, backward(m, adds));
    locked([&] {
      const time_point end = fabric_->now();
      this->trainer_is_here(end, end - begin);
      if (forgotten != this->times_forgotten_) return;  // others have been given it
      const double took = time_of(forward_seconds_[m] + seconds(fabric_->now() - begin));
      micro_batches_.contributed(m, back.loss, std::move(back.bytes), task.pass);
      this->tell_coordinator(swarm_wire::contributed{micro_batches_.turn(), m, took, back.loss});
      this->after_event();
    });
    return {};
  }

  // The first one pays for memory and caches, and says nothing of those to come: 0.
  double time_of(double took) {
    if (!std::exchange(warm_, true)) return 0;
    this->seconds_ = this->seconds_ > 0 ? 0.7 * this->seconds_ + 0.3 * took : took;
    return took;
  }

  // The parameters become those of the path that this peer was given in this round, on which it has done nothing yet.
  void take_module_path() {
    const std::uint32_t path = with_lock([this] { return this->module_path_; });
    if (std::exchange(computes_on_, path) == path) return;
    path_taken_(path);
    computer_->replace_parameters([&](std::span<float> to) { put_path_(path, to); });
  }

  // What is computed again for a neighbour's sake adds to nothing.
  result<swarm_output> backward(std::uint32_t m, bool adds) {
    const auto g = computer_->gradients();
    if (adds && this->steps_alone() && added_++ == 0) {
      std::fill(g.begin(), g.end(), 0.0F);
      clobbered_ = this->closes_a_round();
    }
    if (adds) return computer_->backward(output(m, true));
    const std::vector<float> kept{g.begin(), g.end()};
    auto back = computer_->backward(output(m, true));
    std::copy(kept.begin(), kept.end(), g.begin());
    return back;
  }

  // Who sends what cannot be decoded is sent away, and the coordinator told. When it is back it sends what it kept again,
  // unless the coordinator has found another.
  result<void> refuse(const swarm_task& task, const error& why) {
    locked([&] {
      const net::peer_id from = micro_batches_.refuse(task.micro_batch, task.backward);
      log_(severity::warning, "peer " + std::to_string(from) + " is sent away: micro-batch " +
                                  std::to_string(task.micro_batch) + ": " + why.text());
      if (const auto link = directory_.link_to(from)) fabric_->close(*link, why.message);
      this->tell_coordinator(swarm_wire::refusal{micro_batches_.turn(), task.micro_batch, from});
      this->after_event();
    });
    return {};
  }

  tensor_mailbox<swarm_wire::tensor_announcement> mailbox_;
  std::map<std::uint32_t, double> forward_seconds_;
  std::uint64_t serial_ = 0;          // of the last announcement
  std::uint32_t added_ = 0;           // micro-batches in the gradients, since they were cleared
  std::uint64_t seen_forgotten_ = 0;  // how often those were forgotten, when they were last looked at
  bool clobbered_ = false;            // the gradients held what was to be exchanged
  std::uint32_t computes_on_ = swarm_wire::no_module_path;
  bool warm_ = false;  // has computed a micro-batch to the end
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_WORK_HPP
