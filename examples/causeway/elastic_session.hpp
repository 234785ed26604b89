// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP

// One peer's part in a run whose peers come and go, from joining to the end of the run's samples, a signal or an error. It
// is the same code in a process of its own and in a simulated one; what differs is in elastic_place.hpp. Nothing here waits
// for particular peers: whoever holds a committed round can validate it. Peers that hold stages (`has_stages`) have the
// same samples in a step and validate together; a step is their round, unless they step alone between exchanges.

#include <causeway/core/result.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "elastic_place.hpp"
#include "session_input.hpp"
#include "shared_in_place.hpp"

namespace app {

template <class Trainer>
class elastic_session {
 public:
  /// `fragments`: how many rounds it takes to exchange every parameter once.
  elastic_session(Trainer& trainer, session_input& input, elastic_place& place, std::uint64_t fragments)
      : trainer_{trainer},
        in_{input},
        place_{place},
        checkpoints_{place.storage, place.folder},
        per_round_{steps_of_round(input.s)},
        fragments_{fragments} {}

  causeway::result<session_summary> run() {
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

 private:
  using archiver = causeway::io::archiver;
  static constexpr bool has_stages = std::remove_cvref_t<decltype(std::declval<Trainer&>().parallel())>::traits.staged;
  static constexpr bool alone_between = !Trainer::comm_type::traits.needs_global_step;  // exchanges
  static constexpr bool moves_blocks =
      std::remove_cvref_t<decltype(std::declval<Trainer&>().parallel())>::traits.moves_blocks;
  static constexpr bool shares_optimizer = has_stages && !alone_between;

  auto& ctx() { return trainer_.context(); }

  causeway::result<void> prepare() {
    CAUSEWAY_ASSIGN(auto batches, training_batches(in_, in_.s.train.batch));
    batches_.emplace(std::move(batches));
    CAUSEWAY_ASSIGN(auto held_out, held_out_windows(in_));
    held_out_.emplace(std::move(held_out));
    CAUSEWAY_TRY(fetch_held_out(in_, *held_out_));
    const auto rounds = [&](std::uint64_t steps) {
      return steps == 0 ? 0 : std::max<std::uint64_t>(1, optimizer_steps(in_.s, steps) * fragments_ / per_round_);
    };
    validate_every_ = rounds(in_.s.train.evaluate_every);
    save_every_ = rounds(in_.s.train.checkpoint_every);
    return {};
  }

  causeway::result<void> train() {
    place_.passing("joining");
    CAUSEWAY_TRY(trainer_.start());
    if (place_.pipelines != nullptr) ctx().resume_at(place_.pipelines->record().step);
    if constexpr (alone_between && !moves_blocks) restore_inner_optimizer();  // else it is the others'
    round_ = round();
    place_.events->joined(news());
    for (;;) {
      if (in_.stopping()) {
        summary_.interrupted = true;
        return {};
      }
      CAUSEWAY_ASSIGN(const bool more, step());
      if (!more) return {};
    }
  }

  // One inner step, or, while this peer has no samples, others' rounds. False: the samples of the run are used up.
  causeway::result<bool> step() {
    const auto begin = ctx().clock().now();
    CAUSEWAY_ASSIGN(const auto numbers, draw());
    blocked_ += causeway::seconds(ctx().clock().now() - begin);
    if (round() != round_) CAUSEWAY_TRY(after_round());
    if (numbers.empty()) return false;
    CAUSEWAY_TRY(fetch_samples(in_, *batches_, numbers));
    const std::uint64_t before = ctx().step();
    if (place_.spoils(round())) ctx().parameters()[0] = std::numeric_limits<float>::quiet_NaN();
    CAUSEWAY_ASSIGN(const causeway::step_report report, trainer_.step(batches_->of(numbers)));
    blocked_ += report.exchange_seconds;
    const bool took = report.step == before + 1 && !report.by_others;  // else the run went back, or others did
    if (has_stages ? took : std::isfinite(report.loss)) {
      last_loss_ = report.loss;
      tokens_ += report.tokens;
      place_.events->stepped(report);
    }
    say_if_it_went_on();
    if (round() != round_) CAUSEWAY_TRY(after_round());
    return true;
  }

  // Where the recovery policy keeps work, a lost peer costs only what it alone had of a step.
  void say_if_it_went_on() {
    if constexpr (requires { trainer_.parallel().resumed_attempts(); }) {
      const std::uint64_t attempts = trainer_.parallel().resumed_attempts();
      if (attempts == std::exchange(resumed_attempts_, attempts)) return;
      ctx().log()(causeway::severity::info,
                  "step " + std::to_string(ctx().step()) + " went on without a peer that was lost");
    }
  }

  // The samples of the next step; none: the run's are used up.
  causeway::result<std::vector<std::uint64_t>> draw() {
    const auto count = static_cast<std::uint64_t>(in_.s.train.batch);
    if constexpr (has_stages) {
      std::vector<std::uint64_t> numbers(ctx().step() < in_.s.train.steps ? count : 0);
      std::iota(numbers.begin(), numbers.end(), ctx().step() * count);
      return numbers;
    } else {
      return trainer_.draw(count);
    }
  }

  // Of stages: so many global batches.
  [[nodiscard]] std::uint64_t round() { return has_stages ? ctx().step() / per_round_ : ctx().round(); }

  // Who validates takes turns, so that nobody is late twice.
  causeway::result<void> after_round() {
    round_ = round();
    round_news now = news();
    const bool due = validate_every_ > 0 && round_ % validate_every_ == 0;
    if (due && place_.validates() && (has_stages || ctx().self() == (round_ / validate_every_) % ctx().peers())) {
      CAUSEWAY_TRY(validate());
      now.validation = summary_.validation;
    }
    const bool saves = place_.pipelines == nullptr;  // pipelines do it themselves
    if (saves && save_every_ > 0 && round_ % save_every_ == 0) CAUSEWAY_TRY(save());
    place_.events->committed(now);
    return {};
  }

  round_news news() {
    const auto now = ctx().clock().now();
    const double elapsed = causeway::seconds(now - mark_);
    round_news n;
    n.step = ctx().step();
    n.round = round();
    n.state = place_.group->state_hash();
    if constexpr (has_stages) {
      n.peers = trainer_.parallel().peers();
    } else {
      n.peers = ctx().peers();
    }
    if constexpr (requires { trainer_.parallel().shares(n.step); }) n.shares = trainer_.parallel().shares(n.step);
    n.loss = last_loss_;
    n.tokens_per_second = elapsed > 0 ? static_cast<double>(tokens_) / elapsed : 0;
    if (has_stages && n.peers > 0) n.tokens_per_second /= n.peers;  // they were the whole run's
    n.bytes_sent = place_.bytes_sent();
    n.bytes_received = place_.bytes_received();
    n.parameters = trainer_.model().parameters().length();
    n.blocked_seconds = blocked_;
    mark_ = now;
    tokens_ = 0;
    return n;
  }

  causeway::result<void> validate() {
    const causeway::index_range all{0, held_out_->size()};
    validated_ = round();
    if constexpr (has_stages) {
      return validate_together(all);
    } else {
      const shared_in_place<Trainer> shared{trainer_};
      CAUSEWAY_ASSIGN(const token_losses found, evaluate_windows(trainer_, *held_out_, all, in_.s.train.batch));
      place_.computed(static_cast<std::int64_t>(found.tokens), elastic_place::forward_only);
      summary_.validation = found.sum / found.tokens;
      return {};
    }
  }

  // Who comes late may miss an evaluation, or all of them: the others have the result then.
  causeway::result<void> validate_together(const causeway::index_range& all) {
    token_losses found;
    const std::uint64_t step = ctx().step();
    for (std::int64_t at = all.begin; at < all.end && ctx().step() == step; at += in_.s.train.batch) {
      const causeway::batch b = held_out_->at(at, std::min(in_.s.train.batch, all.end - at));
      const auto loss = trainer_.evaluate(b);
      if (!loss && loss.error().code != causeway::errc::cancelled) return loss.error();
      if (!loss && in_.stopping()) return loss.error();
      if (!loss) continue;
      found.sum += *loss * static_cast<double>(b.tokens());
      found.tokens += static_cast<double>(b.tokens());
    }
    const auto wanted = static_cast<double>(all.end - all.begin) * static_cast<double>(in_.s.model.context);
    summary_.validation = found.tokens == wanted ? found.sum / found.tokens : 0;
    return {};
  }

  // ---- this peer's own disk ------------------------------------------------------------------------------------------

  // The membership keeps what peers share. This is for the inner optimizer, where it is this peer's own, and for
  // `generate`.
  causeway::result<void> save() {
    if constexpr (shares_optimizer || moves_blocks) {
      return trainer_.parallel().save_blocks(ctx());
    } else {
      if constexpr (has_stages) {
        CAUSEWAY_TRY(trainer_.parallel().save_blocks(ctx(), round() * per_round_, trainer_.comm().anchor()));
      }
      const shared_in_place<Trainer> shared{trainer_};
      CAUSEWAY_ASSIGN(const auto sections, causeway::save_state(trainer_, archiver{}));
      return checkpoints_.save(ctx().step(), sections, in_.run_id);
    }
  }

  // A peer that comes back begins with the moments that it had. Without them it begins with none, as a new peer does.
  void restore_inner_optimizer() {
    const auto newest = checkpoints_.load_newest();
    if (!newest) return;
    trainer_.for_each_state([&](const std::string& name, std::uint32_t, auto& object) {
      if (!name.starts_with("inner.")) return;
      const auto found = newest->file.find(name);
      if (found && (!archiver{}.from_bytes(found->bytes, object) || !ctx().inner().check())) ctx().reset_inner();
    });
    const auto where = causeway::read_cut(newest->file, archiver{});
    if (where && where->step > ctx().step()) (void)checkpoints_.discard_after(ctx().step());
  }

  // The others need not wait for this peer any longer. What it trained since the last round is lost with it; the samples
  // are not, somebody else gets them.
  causeway::result<session_summary> stopped() {
    summary_.interrupted = true;
    if (has_stages && ctx().step() > 0) CAUSEWAY_TRY(save());  // first, so that the others need not wait for it
    place_.group->leave();
    if (!has_stages && ctx().step() > 0) CAUSEWAY_TRY(save());
    return summarize();
  }

  session_summary& summarize() {
    summary_.step = ctx().step();
    summary_.round = place_.group->round();
    summary_.state_hash = place_.group->state_hash();
    summary_.bytes_sent = place_.bytes_sent();
    const double peers = in_.s.net.peers;
    summary_.every_step_bytes = 8.0 * static_cast<double>(trainer_.model().parameters().length()) * (peers - 1) / peers *
                                static_cast<double>(summary_.step);
    summary_.wall_seconds = causeway::seconds(ctx().clock().now() - begin_);
    return summary_;
  }

  Trainer& trainer_;
  session_input& in_;
  elastic_place& place_;
  causeway::io::checkpoint_directory<causeway::io::any_storage> checkpoints_;
  std::optional<causeway::data::batcher> batches_;
  std::optional<causeway::data::validation_windows> held_out_;
  session_summary summary_;
  causeway::time_point begin_;
  causeway::time_point mark_;
  std::uint64_t per_round_;  // steps; where fragments take turns, of a round of each
  std::uint64_t fragments_;
  std::uint64_t validate_every_ = 0;
  std::uint64_t save_every_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t validated_ = UINT64_MAX;  // round
  std::uint64_t resumed_attempts_ = 0;
  std::int64_t tokens_ = 0;
  double blocked_ = 0;
  double last_loss_ = 0;
};

template <class Trainer>
causeway::result<session_summary> run_session(Trainer& trainer, session_input& in, elastic_place& place,
                                              std::uint64_t fragments = 1) {
  const struct silence {  // the others must not be served from a trainer that is gone
    causeway::net::fabric& fabric;
    ~silence() { fabric.attach(nullptr); }
  } guard{*place.fabric};
  return elastic_session<Trainer>{trainer, in, place, fragments}.run();
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP
