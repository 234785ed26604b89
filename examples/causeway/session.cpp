// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/common_cut.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "path_layout.hpp"
#include "policies.hpp"
#include "shared_in_place.hpp"
#include "told_figures.hpp"

namespace app {

template <class T, std::size_t N>
causeway::result<std::vector<std::array<T, N>>> session::gather(const std::array<T, N>& mine, std::uint64_t number,
                                                                std::uint32_t beyond) {
  std::vector<std::array<T, N>> all(peers_);
  all[self_] = mine;
  if (peers_ == 1) return all;
  const causeway::net::message_id id{.channel = causeway::collective::channels::metrics + beyond, .step = number};
  CAUSEWAY_TRY(causeway::collective::all_gather(ctx().world(), id, std::as_bytes(std::span{mine}),
                                                std::as_writable_bytes(std::span{all}), {}));
  return all;
}

causeway::result<session_summary> session::run() {
  CAUSEWAY_ASSIGN(metrics_, metrics_file::open(own_folder(), self_, in_.s.watch.tensorboard));
  metrics_.started({.id = self_});
  CAUSEWAY_TRY(compare_texts());
  CAUSEWAY_TRY(resume());
  CAUSEWAY_TRY(trainer_.start());
  CAUSEWAY_TRY(prepare());
  const auto outcome = train();
  line_.finish();
  if (!outcome || summary_.interrupted) return stopped(outcome);
  CAUSEWAY_TRY(validate(true));
  CAUSEWAY_TRY(save());
  return summarize();
}

// ---- start --------------------------------------------------------------------------------------------------------

// Peers that cut other tokens from other texts would train, and mean nothing.
causeway::result<void> session::compare_texts() {
  const std::array<std::uint64_t, 1> mine{in_.data.hash};
  CAUSEWAY_ASSIGN(const auto all, gather(mine, 0));
  for (std::uint32_t peer = 0; peer < peers_; ++peer) {
    if (all[peer] == mine) continue;
    return causeway::fail(causeway::errc::wrong_model, "peer " + std::to_string(peer),
                          "trains on another text or tokenizer; give all peers the same text with --data.path");
  }
  return {};
}

// All peers go on from the newest round that all of them hold; within it, each from its own newest step. Where they have
// nothing in common, each from its own newest.
causeway::result<void> session::resume() {
  const auto pass_over = [](const causeway::error& why) {
    std::fprintf(stderr, "passing over a checkpoint: %s\n", why.text().c_str());
  };
  CAUSEWAY_ASSIGN(auto cuts, causeway::cuts_in(checkpoints_, causeway::io::archiver{}, pass_over));
  for (causeway::cut& c : cuts) {
    if (pace_ == pace::nothing) c.round = 0;
    if (pace_ == pace::in_step) c.round = c.step;
  }
  const auto common = causeway::common_cut(ctx().world(), cuts);
  if (!common && common.error().code == causeway::errc::diverged) {
    return causeway::fail(causeway::errc::diverged, in_.folder,
                          "the peers' checkpoints have no round in common; give every peer its own old folder, or start "
                          "over with --run.fresh");
  }
  CAUSEWAY_ASSIGN(const auto from, common);
  if (!from) return {};
  CAUSEWAY_ASSIGN(const auto file, checkpoints_.load(from->step));
  CAUSEWAY_TRY(trainer_.restore(file));
  CAUSEWAY_TRY(ctx().inner().check());
  CAUSEWAY_TRY(checkpoints_.discard_after(from->step));
  if (self_ == 0 || pace_ == pace::in_step) CAUSEWAY_TRY(shared_.discard_after(from->step));
  CAUSEWAY_ASSIGN(const auto steps, gather(std::array<std::uint64_t, 1>{from->step}, 3));
  begun_at_ = std::min_element(steps.begin(), steps.end())->front();
  if (!in_.s.quiet) std::printf("resuming at step %llu, round %llu\n", ull(from->step), ull(ctx().round()));
  return {};
}

causeway::result<void> session::prepare() {
  share_ = ctx().self();  // those of a pipeline's peers are alike
  shares_ = ctx().peers();
  const auto batch = static_cast<std::int64_t>(in_.s.train.batch * shares_);
  CAUSEWAY_ASSIGN(auto batches, training_batches(in_, batch));
  batches_.emplace(std::move(batches));
  batches_->seek(ctx().step() * static_cast<std::uint64_t>(batch));
  of_batch_ = {share_, shares_};
  CAUSEWAY_ASSIGN(auto held_out, held_out_windows(in_));
  held_out_.emplace(std::move(held_out));
  if (trains_paths(in_.s)) CAUSEWAY_TRY(route(false));
  CAUSEWAY_TRY(metrics_.resume_at(ctx().step(), ctx().round(), ctx().model().parameters().length()));
  next_validation_ = next_after(begun_at_, in_.s.train.evaluate_every);
  next_save_ = next_after(begun_at_, in_.s.train.checkpoint_every);
  if (pace_ == pace::rounds) next_save_ = next_after(ctx().round(), rounds_between_saves());
  first_step_ = ctx().step();
  begin_ = mark_ = committed_at_ = ctx().clock().now();
  // So that there is a round that all peers hold, however early they are stopped.
  const bool saves = may_part() || pace_ == pace::rounds || restarts();
  return saves && first_step_ == 0 ? save() : causeway::result<void>{};
}

// Which documents this peer trains and is judged on from here on.
causeway::result<void> session::route(bool again) {
  if (!routed_) routed_.emplace(in_, trainer_, *held_out_);
  CAUSEWAY_TRY(again ? routed_->again(ctx().step()) : routed_->begin(ctx().step()));
  CAUSEWAY_ASSIGN(auto batches, routed_->batches());
  batches_.emplace(std::move(batches));
  batches_->seek(ctx().step() * static_cast<std::uint64_t>(batches_->global_batch()));
  of_batch_ = routed_->share();
  next_route_ = next_after(ctx().step(), in_.s.comm.route_again);
  return {};
}

// When they are stopped, one may be a step or more ahead of another with which it has to go on from the same one.
bool session::may_part() const {
  return pace_ == pace::overlapping || (pace_ == pace::in_step && shares_ > 1) || is_async_pipeline(in_.s);
}

// ---- middle -------------------------------------------------------------------------------------------------------

// An exchange that fails because another peer has stopped before us is an interruption, too.
causeway::result<void> session::train() {
  auto outcome = loop();
  if (outcome && !summary_.interrupted) outcome = trainer_.finish();
  if (!outcome) summary_.interrupted = in_.stopping();
  return outcome;
}

causeway::result<void> session::loop() {
  while (ctx().step() < in_.s.train.steps) {
    if (in_.stopping()) {
      summary_.interrupted = true;
      return {};
    }
    CAUSEWAY_ASSIGN(const auto report, trainer_.step(next_batch()));
    batches_->advance();
    in_.reached(report.step);
    CAUSEWAY_TRY(after_step(report));
  }
  return {};
}

causeway::batch session::next_batch() {
  const auto part = trainer_.part_of_batch();
  if (!part) return batches_->current(of_batch_.index, of_batch_.of);
  return batches_->at(batches_->cursor() + static_cast<std::uint64_t>(part->begin), part->size());
}

causeway::result<void> session::after_step(const causeway::step_report& r) {
  // A stage that updates on its own has no loss before its first gradient is back.
  learns_ = learns_ || !std::isnan(r.loss);
  if (learns_) {
    loss_sum_ += r.loss;
    ++loss_count_;
    learned_ += r.tokens;
  }
  metrics_.stepped(r);
  last_loss_ = r.loss;
  blocked_ += r.exchange_seconds;
  tokens_ += r.tokens;
  if (r.committed_round) metrics_.committed(news(r));
  metrics_.links(*in_.links, false);
  const bool at_end = ends_round(r), due = at_end && r.step >= next_validation_;
  if (routed_ && at_end && r.step >= next_route_ && r.step < in_.s.train.steps) CAUSEWAY_TRY(route(true));
  if (due) {
    CAUSEWAY_TRY(alike() ? validate(false) : validate_alone());
    next_validation_ = next_after(r.step, in_.s.train.evaluate_every);
  }
  if (at_end) CAUSEWAY_TRY(save_if_due(r));
  show(due);
  return {};
}

// Stages make their exchanges in the same steps, but which of them are a round's end depends on how each is cut.
bool session::ends_round(const causeway::step_report& r) const {
  return pace_ == pace::in_step ? r.step % steps_of_round(in_.s) == 0 : r.committed_round;
}

bool session::alike() const { return pace_ == pace::together || pace_ == pace::overlapping || pace_ == pace::in_step; }

// At steps or rounds that are the same for all peers, where they have such.
causeway::result<void> session::save_if_due(const causeway::step_report& r) {
  const std::uint64_t at = pace_ == pace::rounds ? r.round : r.step;
  if (at < next_save_) return {};
  // Nobody drops a checkpoint before all have the one after it.
  if (may_part()) {
    CAUSEWAY_TRY(gather(std::array<std::uint64_t, 1>{at}, at, 2));
  }
  CAUSEWAY_TRY(save());
  next_save_ = next_after(at, pace_ == pace::rounds ? rounds_between_saves() : in_.s.train.checkpoint_every);
  return {};
}

// Every peer takes its share of the validation windows; the sums are gathered. All peers are in the same step here.
causeway::result<void> session::validate(bool last) {
  const auto part = causeway::share_of(held_out_->size(), share_, shares_);
  CAUSEWAY_ASSIGN(const losses mine, own_losses(part));
  // Peers that take their own number of steps have the end in common, but not its number.
  const std::uint64_t number = alike() ? 2 + ctx().step() * 2 + (last ? 1 : 0) : 2;
  CAUSEWAY_ASSIGN(const auto all, gather(mine, number));
  losses total{};
  for (const auto& peer : all) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += peer[i];
  }
  note(total);
  hear(all);
  return {};
}

// The first peer its share, where the others are somewhere else.
causeway::result<void> session::validate_alone() {
  if (self_ != 0) return {};
  CAUSEWAY_ASSIGN(losses mine, own_losses(causeway::share_of(held_out_->size(), share_, shares_)));
  mine[4] *= peers_;  // as if all were as quick
  note(mine);
  return {};
}

causeway::result<session::losses> session::own_losses(causeway::index_range part) {
  const double speed = static_cast<double>(learned_) / std::max(1e-9, causeway::seconds(ctx().clock().now() - mark_));
  const shared_in_place shared{trainer_};
  CAUSEWAY_ASSIGN(const token_losses found,
                  routed_ ? routed_->evaluate() : evaluate_windows(trainer_, *held_out_, part, in_.s.train.batch));
  const double sent = static_cast<double>(ctx().world().stats().bytes_sent);
  return losses{found.sum, found.tokens, loss_sum_, static_cast<double>(loss_count_), speed, sent, blocked_};
}

// How the others stand; what cannot be is left out.
void session::hear(const std::vector<losses>& all) {
  for (std::uint32_t peer = 0; peer < peers_; ++peer) {
    const losses& l = all[peer];
    if (peer == self_ || !(l[5] >= 0) || l[5] > static_cast<double>(told_figures::largest)) continue;
    told_figures f{ctx().step(), ctx().round(),           static_cast<std::uint64_t>(l[5]),
                   l[2] / l[3],  l[4] * shares_ / peers_, l[6]};
    if (!std::isfinite(f.loss)) f.loss = std::numeric_limits<double>::quiet_NaN();
    if (f.possible()) in_.links->told(peer, f);
  }
  metrics_.told(*in_.links, in_.folder, true);
}

void session::note(const losses& total) {
  summary_.validation = total[0] / total[1];
  if (loss_count_ > 0) speed_ = total[4] * shares_ / peers_;  // a pipeline's peers all say its speed
  loss_sum_ = 0;
  loss_count_ = 0;
  learned_ = 0;
  mark_ = ctx().clock().now();
  if (self_ == 0) metrics_.validated(ctx().step(), ctx().round(), summary_.validation);
}

round_news session::news(const causeway::step_report& r) {
  const auto now = ctx().clock().now();
  const double elapsed = causeway::seconds(now - committed_at_);
  const causeway::traffic traffic = ctx().world().stats();
  round_news n{.step = r.step, .round = r.round, .state = r.state_hash, .peers = peers_, .loss = r.loss};
  if (elapsed > 0) n.tokens_per_second = static_cast<double>(tokens_) / elapsed * shares_ / peers_;
  n.bytes_sent = traffic.bytes_sent;
  n.bytes_received = traffic.bytes_received;
  n.blocked_seconds = blocked_;
  committed_at_ = now;
  tokens_ = 0;
  return n;
}

void session::show(bool milestone) {
  const auto step = ctx().step();
  const double per_step = causeway::seconds(ctx().clock().now() - begin_) / static_cast<double>(step - first_step_);
  if (speed_ == 0) speed_ = static_cast<double>(in_.s.train.batch * in_.s.model.context * shares_) / per_step;
  const auto sent = ctx().world().stats().bytes_sent;
  line_.show({.step = step,
              .steps = in_.s.train.steps,
              .round = ctx().round(),
              .loss = last_loss_,
              .validation = summary_.validation,
              .tokens_per_second = speed_,
              .bytes_sent = sent,
              .bytes_saved_factor = sent == 0 ? 0 : every_step_bytes() / static_cast<double>(sent),
              .seconds_left = per_step * static_cast<double>(in_.s.train.steps - step)},
             milestone);
}

// What data parallelism with an exchange in every step would send; nothing to compare with in a pipeline.
double session::every_step_bytes() {
  if (shares_ != peers_) return 0;
  const double parameters = static_cast<double>(ctx().model().parameters().length());
  return 8.0 * parameters * (peers_ - 1) / peers_ * static_cast<double>(ctx().step() - first_step_);
}

// ---- end ----------------------------------------------------------------------------------------------------------

// After a signal or an error: keep what we have. Within a round, peers may stop at different steps.
causeway::result<session_summary> session::stopped(const causeway::result<void>& outcome) {
  const auto saved = save();
  if (summary_.interrupted) {
    CAUSEWAY_TRY(saved);
    return summarize();
  }
  causeway::error why = outcome.error();
  why.message += !saved ? "; its state could not be saved either: " + saved.error().text()
                        : "; the state of step " + std::to_string(ctx().step()) + " is saved" +
                              (restarts() ? "" : ": start the same command to go on");
  return why;
}

causeway::result<void> session::save() {
  CAUSEWAY_ASSIGN(const auto sections, trainer_.save());
  CAUSEWAY_TRY(checkpoints_.save(ctx().step(), sections, in_.run_id));
  return share_ == 0 ? save_shared() : causeway::result<void>{};
}

// For those who generate: a peer's live parameters are not what the run has come to.
causeway::result<void> session::save_shared() {
  using names = causeway::detail::section_names;
  const std::span<const float> shared = trainer_.shared_parameters();
  auto& store = ctx().model().parameters();
  if (shared.size() != store.values().size()) return {};
  CAUSEWAY_ASSIGN(auto layout, causeway::io::archiver{}.to_bytes(store.layout_hash()));
  std::vector<causeway::io::section> sections;
  sections.push_back(causeway::io::section::of<float>(names::parameters, 1, shared));
  sections.emplace_back(names::layout, 1, std::move(layout));
  return shared_.save(ctx().step(), sections, in_.run_id);
}

session_summary session::summarize() {
  metrics_.links(*in_.links, true);
  metrics_.ended(ctx().step(), ctx().round(), summary_.interrupted);
  summary_.step = ctx().step();
  summary_.round = ctx().round();
  summary_.bytes_sent = ctx().world().stats().bytes_sent;
  summary_.every_step_bytes = every_step_bytes();
  summary_.wall_seconds = causeway::seconds(ctx().clock().now() - begin_);
  summary_.blocked_seconds = blocked_;
  summary_.state_hash = ctx().parent();
  return summary_;
}

}  // namespace app
