// SPDX-License-Identifier: Apache-2.0
#include "elastic_session.hpp"

#include <causeway/io/archive.hpp>
#include <causeway/train/checkpoint.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "path_layout.hpp"
#include "path_router.hpp"
#include "shared_in_place.hpp"

namespace app {

causeway::result<session_summary> elastic_session::run() {
  CAUSEWAY_TRY(prepare());
  begin_ = ctx().clock().now();
  const auto outcome = train();
  if (!outcome && !in_.stopping()) return outcome.error();
  if (!outcome || summary_.interrupted) return stopped();
  if (place_.validates() && validated_ != round()) CAUSEWAY_TRY(validate());
  CAUSEWAY_TRY(save());
  place_.events->finished(summarize());
  CAUSEWAY_TRY(place_.linger());
  place_.group->close(false);  // nobody needs the state any more: it need not be copied
  return summary_;
}

causeway::result<void> elastic_session::prepare() {
  CAUSEWAY_ASSIGN(auto batches, training_batches(in_, in_.s.train.batch));
  batches_.emplace(std::move(batches));
  CAUSEWAY_ASSIGN(auto held_out, held_out_windows(in_));
  held_out_.emplace(std::move(held_out));
  CAUSEWAY_TRY(fetch_held_out(in_, *held_out_));
  if (trains_paths(in_.s)) {
    routed_.emplace(in_, trainer_, *held_out_, place_.storage, place_.folder);
    CAUSEWAY_TRY(routed_->begin(0));
  }
  const auto rounds = [&](std::uint64_t steps) {
    const std::uint64_t counted = has_stages() ? steps : optimizer_steps(in_.s, steps);
    return steps == 0 ? 0 : std::max<std::uint64_t>(1, counted * fragments_ / per_round_);
  };
  validate_every_ = rounds(in_.s.train.evaluate_every);
  save_every_ = rounds(in_.s.train.checkpoint_every);
  return {};
}

causeway::result<void> elastic_session::train() {
  place_.passing("joining");
  CAUSEWAY_TRY(trainer_.start());
  if (place_.pipelines != nullptr) ctx().resume_at(place_.pipelines->record().step);
  if (trainer_.alone_between() && !trainer_.moves_blocks()) restore_inner_optimizer();  // else it is the others'
  round_ = round();
  place_.events->joined(news());
  for (;;) {
    if (in_.stopping()) {
      summary_.interrupted = true;
      return hand_over();
    }
    CAUSEWAY_ASSIGN(const bool more, step());
    if (!more) return {};
  }
}

// One more step, in which the others take what this peer holds.
causeway::result<void> elastic_session::hand_over() {
  if (in_.s.fault.notice == 0 || !trainer_.leave_next()) return {};
  const auto outcome = step();
  return outcome ? causeway::result<void>{} : outcome.error();
}

// One inner step, or, while this peer has no samples, others' rounds. False: the samples of the run are used up.
causeway::result<bool> elastic_session::step() {
  const auto begin = ctx().clock().now();
  CAUSEWAY_ASSIGN(const auto numbers, draw());
  blocked_ += causeway::seconds(ctx().clock().now() - begin);
  if (round() != round_) CAUSEWAY_TRY(after_round());
  if (numbers.empty()) return false;
  CAUSEWAY_ASSIGN(const causeway::batch batch, batch_of(numbers));
  const std::uint64_t before = ctx().step();
  if (place_.spoils(round())) ctx().parameters()[0] = std::numeric_limits<float>::quiet_NaN();
  CAUSEWAY_ASSIGN(const causeway::step_report report, trainer_.step(batch));
  blocked_ += report.exchange_seconds;
  const bool took = report.step == before + 1 && !report.by_others;  // else the run went back, or others did
  if (has_stages() ? took : std::isfinite(report.loss)) {
    last_loss_ = report.loss;
    tokens_ += report.tokens;
    place_.events->stepped(report);
  }
  say_if_it_went_on();
  if (round() != round_) CAUSEWAY_TRY(after_round());
  return true;
}

causeway::result<causeway::batch> elastic_session::batch_of(const std::vector<std::uint64_t>& numbers) {
  if (routed_ && has_stages()) return routed_->batch_of_all(ctx().step());
  if (routed_) CAUSEWAY_TRY(follow_path());
  CAUSEWAY_TRY(fetch_samples(in_, *batches_, numbers));
  return batches_->of(numbers);
}

// Documents are those of this peer's path, which it has as long as it is a member.
causeway::result<void> elastic_session::follow_path() {
  const auto path = trainer_.path();
  if (!path || path == routed_->path()) return {};
  routed_->take(*path);
  CAUSEWAY_ASSIGN(auto batches, routed_->batches());
  batches_.emplace(std::move(batches));
  return note_path(place_.storage, place_.folder, *path);
}

// Where the recovery policy keeps work, a lost peer costs only what it alone had of a step.
void elastic_session::say_if_it_went_on() {
  const std::uint64_t attempts = trainer_.resumed_attempts();
  if (attempts == std::exchange(resumed_attempts_, attempts)) return;
  ctx().log()(causeway::severity::info, "step " + std::to_string(ctx().step()) + " went on without a peer that was lost");
}

// The samples of the next step; none: the run's are used up.
causeway::result<std::vector<std::uint64_t>> elastic_session::draw() {
  const auto count = static_cast<std::uint64_t>(in_.s.train.batch);
  const auto part = trainer_.part_of_batch();
  if (!has_stages()) return trainer_.draw(part ? static_cast<std::uint64_t>(part->size()) : count);
  std::vector<std::uint64_t> numbers(ctx().step() < in_.s.train.steps ? count : 0);
  std::iota(numbers.begin(), numbers.end(), ctx().step() * count);
  return numbers;
}

// Who validates takes turns, so that nobody is late twice.
causeway::result<void> elastic_session::after_round() {
  round_ = round();
  round_news now = news();
  const bool due = validate_every_ > 0 && round_ % validate_every_ == 0;
  if (due && place_.validates() && (has_stages() || ctx().self() == (round_ / validate_every_) % ctx().peers())) {
    CAUSEWAY_TRY(validate());
    now.validation = summary_.validation;
  }
  const bool saves = place_.pipelines == nullptr;  // pipelines do it themselves
  if (saves && save_every_ > 0 && round_ % save_every_ == 0) CAUSEWAY_TRY(save());
  place_.events->committed(now);
  return {};
}

round_news elastic_session::news() {
  const auto now = ctx().clock().now();
  const double elapsed = causeway::seconds(now - mark_);
  round_news n;
  n.step = ctx().step();
  n.of_run = has_stages() ? n.step : optimizer_steps(in_.s, place_.group->samples_done() / samples_of_step(in_.s));
  n.round = round();
  n.state = place_.group->state_hash();
  n.peers = trainer_.peers();
  n.shares = trainer_.shares(n.step);
  n.loss = last_loss_;
  n.tokens_per_second = elapsed > 0 ? static_cast<double>(tokens_) / elapsed : 0;
  if (has_stages() && n.peers > 0) n.tokens_per_second /= n.peers;  // they were the whole run's
  n.bytes_sent = place_.bytes_sent();
  n.bytes_received = place_.bytes_received();
  n.parameters = ctx().model().parameters().length();
  n.blocked_seconds = blocked_;
  mark_ = now;
  tokens_ = 0;
  return n;
}

causeway::result<void> elastic_session::validate() {
  const causeway::index_range all{0, held_out_->size()};
  validated_ = round();
  if (has_stages()) return validate_together(all);
  const shared_in_place shared{trainer_};
  CAUSEWAY_ASSIGN(const token_losses found,
                  routed_ ? routed_->evaluate_all() : evaluate_windows(trainer_, *held_out_, all, in_.s.train.batch));
  place_.computed(static_cast<std::int64_t>(found.tokens), elastic_place::forward_only);
  summary_.validation = found.sum / found.tokens;
  return {};
}

// Who comes late may miss an evaluation, or all of them: the others have the result then.
causeway::result<void> elastic_session::validate_together(const causeway::index_range& all) {
  token_losses found;
  double wanted = 0;
  const std::uint64_t step = ctx().step();
  const auto judge = [&](const causeway::batch& b, double tokens, const auto& evaluate) -> causeway::result<void> {
    wanted += tokens;
    if (ctx().step() != step) return {};
    const causeway::result<double> loss = evaluate();
    if (!loss && (loss.error().code != causeway::errc::cancelled || in_.stopping())) return loss.error();
    if (!loss) return {};
    found.sum += *loss * static_cast<double>(b.tokens());
    found.tokens += tokens;
    return {};
  };
  if (routed_) {
    CAUSEWAY_TRY(routed_->each_held_out([&](std::uint32_t path, const causeway::batch& b, double tokens) {
      return judge(b, tokens, [&] { return trainer_.evaluate_path(b, path); });
    }));
  }
  for (std::int64_t at = all.begin; at < all.end && !routed_; at += in_.s.train.batch) {
    const causeway::batch b = held_out_->at(at, std::min(in_.s.train.batch, all.end - at));
    CAUSEWAY_TRY(judge(b, static_cast<double>(b.tokens()), [&] { return trainer_.evaluate(b); }));
  }
  summary_.validation = found.tokens == wanted ? found.sum / found.tokens : 0;
  return {};
}

// ---- this peer's own disk ------------------------------------------------------------------------------------------

// The membership keeps what peers share. This is for the inner optimizer, where it is this peer's own, and for
// `generate`.
causeway::result<void> elastic_session::save() {
  const bool all_in_blocks = trainer_.moves_blocks() || (has_stages() && !trainer_.alone_between());
  if (all_in_blocks) return trainer_.save_blocks(ctx().step());
  if (has_stages()) CAUSEWAY_TRY(trainer_.save_blocks(round() * per_round_));
  const shared_in_place shared{trainer_};
  CAUSEWAY_ASSIGN(const auto sections, trainer_.save());
  return checkpoints_.save(ctx().step(), sections, in_.run_id);
}

// A peer that comes back begins with the moments that it had. Without them it begins with none, as a new peer does.
void elastic_session::restore_inner_optimizer() {
  const auto newest = checkpoints_.load_newest();
  if (!newest) return;
  const auto found = newest->file.find("inner." + std::string{chosen_inner::name});
  const bool good = found && causeway::io::archiver{}.from_bytes(found->bytes, ctx().inner()) && ctx().inner().check();
  if (found && !good) ctx().reset_inner();
  const auto where = causeway::read_cut(newest->file, causeway::io::archiver{});
  if (where && where->step > ctx().step()) (void)checkpoints_.discard_after(ctx().step());
}

// The others need not wait for this peer any longer. What it trained since the last round is lost with it; the samples
// are not, somebody else gets them.
causeway::result<session_summary> elastic_session::stopped() {
  summary_.interrupted = true;
  if (has_stages() && ctx().step() > 0) CAUSEWAY_TRY(save());  // first, so that the others need not wait for it
  place_.group->leave();
  if (!has_stages() && ctx().step() > 0) CAUSEWAY_TRY(save());
  return summarize();
}

session_summary& elastic_session::summarize() {
  summary_.step = ctx().step();
  summary_.round = place_.group->round();
  summary_.state_hash = place_.group->state_hash();
  summary_.bytes_sent = place_.bytes_sent();
  const double peers = in_.s.net.peers;
  summary_.every_step_bytes = 8.0 * static_cast<double>(ctx().model().parameters().length()) * (peers - 1) / peers *
                              static_cast<double>(summary_.step);
  summary_.wall_seconds = causeway::seconds(ctx().clock().now() - begin_);
  summary_.blocked_seconds = blocked_;
  return summary_;
}

causeway::result<session_summary> run_session(trainer_handle& trainer, session_input& in, elastic_place& place,
                                              std::uint64_t fragments) {
  const struct silence {  // the others must not be served from a trainer that is gone
    causeway::net::fabric& fabric;
    ~silence() { fabric.attach(nullptr); }
  } guard{*place.fabric};
  return elastic_session{trainer, in, place, fragments}.run();
}

}  // namespace app
