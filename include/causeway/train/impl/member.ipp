// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_IPP

// Bodies of train/member.hpp.

#include <causeway/train/member.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL member::member(std::shared_ptr<net::fabric> fabric, io::any_storage storage, member_options options,
                             log_sink log, std::unique_ptr<member_control> control)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      log_{std::move(log)},
      control_{std::move(control)},
      waits_{*fabric_, *control_, options_, log_},
      fetch_{*control_, waits_, options_, log_},
      store_{std::move(storage), options_.folder + "/rounds"},
      samples_{fabric_->id()},
      attempt_{fabric_, *control_, options_.exchange} {}

CAUSEWAY_DECL result<std::shared_ptr<member>> member::make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                                           member_options options, log_sink log) {
  CAUSEWAY_ASSIGN(auto control, member_control::make(fabric, storage, options, log));
  return std::shared_ptr<member>{
      new member{std::move(fabric), std::move(storage), std::move(options), std::move(log), std::move(control)}};
}

CAUSEWAY_INLINE result<void> member::open(shared_state state, thread_pool& pool) {
  state_ = std::move(state);
  pool_ = &pool;
  for (const auto part : state_.parts) image_.add(part);
  fetch_.into(state_, image_, pool_);
  const auto stored = load_stored();
  const std::uint64_t root = hash_image();
  control_->attach();
  locked([&] { control_->gather(state_.round_samples); });
  locked([&] { control_->begin(stored, root); });
  CAUSEWAY_TRY(take_newest());
  waits_.note_inside();
  return {};
}

CAUSEWAY_INLINE result<round_entry> member::enter(std::uint64_t samples, std::uint64_t later) {
  uncommitted_ = samples;
  for (;;) {
    situation now = waits_.look();
    if (now.is == situation::kind::idle) {
      if (now.newest.round > held_.round) {  // committed without us, with the state that we hold
        (void)keeps_samples();
        hold(now.newest);
        if (samples > 0 && uncommitted_ == 0) return lose_progress();
      }
      if (budget_used()) return fail(errc::cancelled, "round", "every sample of the run is in a commit");
      now = say_ready(later);
    }
    switch (now.is) {
      case situation::kind::exchange: {
        CAUSEWAY_ASSIGN(const auto entered, entry(now));
        if (entered) return *entered;
        break;
      }
      case situation::kind::adopt: return fail(errc::cancelled, "round", "others have finished it; taking it over");
      case situation::kind::fetch: {
        CAUSEWAY_ASSIGN(const bool held, fetch(now, keeps_samples()));
        if (held && options_.enters_afresh) return fail(errc::cancelled, "round", "others have finished it");
        if (held && samples > 0 && uncommitted_ == 0) return lose_progress();
        break;
      }
      case situation::kind::failed:
      case situation::kind::left: return now.gone();
      default: {
        CAUSEWAY_ASSIGN(const bool changed, waits_.await_change_or_call(now));
        if (!changed) return fail(errc::cancelled, "round", "there is something to do first");
      }
    }
  }
}

CAUSEWAY_DECL auto member::say_ready(std::uint64_t later) -> situation {
  passing("before_ready");
  situation now;
  locked([&] {
    const auto drawn = samples_.drawn();
    control_->journal().trained(held_, drawn.first(drawn.size() - std::min<std::size_t>(drawn.size(), later)),
                                uncommitted_);
    control_->ready(held_.round + 1, held_.chain(), uncommitted_);
    now = control_->now_what();  // with the same lock: an attempt may begin and be called off before the next
  });
  return now;
}

CAUSEWAY_INLINE bool member::stand_by(std::uint64_t samples, std::uint64_t later) {
  uncommitted_ = samples;
  situation now = waits_.look();
  if (now.is == situation::kind::idle && now.newest.round == held_.round && !budget_used()) now = say_ready(later);
  return now.is != situation::kind::gathering;
}

CAUSEWAY_INLINE bool member::announce(std::uint64_t samples) {
  uncommitted_ = samples;
  const situation now = waits_.look();
  if (now.is == situation::kind::joining || now.is == situation::kind::no_quorum) return false;
  if (now.is != situation::kind::idle) return true;
  if (now.newest.round > held_.round) {  // committed with the state that we hold
    if (!keeps_samples()) return true;   // which `enter` says
    hold(now.newest);
  }
  locked([&] { control_->announce(held_.round + 1, held_.chain(), samples); });
  return waits_.look().enough;
}

CAUSEWAY_INLINE result<void> member::exchanged(std::span<const float> mean) {
  passing("exchanged");
  fetch_.note_rate(attempt_.entered_at(), attempt_.exchanged());
  const auto copy = copy_for_others();
  bool in_time = false;
  locked([&] {
    control_->exchanging(false);
    in_time = control_->completed(attempt_.view().at);
    if (!in_time) return;
    control_->journal().updates(attempt_.view());
    if (copy) control_->copied(copy);
    control_->withdraw();
  });
  in_step_ = in_step_ && !in_time;
  if (!in_time) return fail(errc::cancelled, "round", "the attempt was called off");
  if (!mean.empty()) keep_mean(mean);
  return {};
}

CAUSEWAY_DECL void member::keep_mean(std::span<const float> mean) {
  bool wanted = false;
  locked([&] { wanted = control_->keeps_means(); });
  mean_.reset();
  if (!wanted || mean.size_bytes() != state_.parts.front().size()) return;
  std::vector<float> row(mean.begin(), mean.end());
  membership::state_image image;
  image.add(std::as_writable_bytes(std::span{row}));
  (void)image.root(pool_);
  mean_ = membership::kept_bytes::copy_of(image);
  mean_of_ = attempt_.view().round;
}

CAUSEWAY_INLINE result<verdict> member::decide(const result<void>& outcome, bool candidate) {
  contributed_ = 0;
  attempt_.forget_overdue();
  if (!outcome) locked([&] { control_->exchanging(false); });
  if (outcome && candidate) {
    CAUSEWAY_TRY(vote(held_.round + 1));
  } else if (!outcome) {
    CAUSEWAY_TRY(report(outcome.error()));
  }
  return judge(outcome.has_value());
}

CAUSEWAY_INLINE result<verdict> member::sit_out(const error& why) {
  contributed_ = uncommitted_ = 0;
  attempt_.forget_overdue();
  const std::uint32_t rounds = 1U << std::min(unusable_++, 4U);
  locked([&] {
    control_->exchanging(false);
    control_->unusable(attempt_.at().value_or(membership::ballot{}));
  });
  attempt_.end();
  if (unusable_ > times_unusable) {
    return fail(errc::non_finite, why.where,
                why.message + ", " + std::to_string(unusable_) +
                    " times in a row: this peer ends. If it is the only one, look at its hardware; if others end so "
                    "too, lower the learning rate or lengthen its warm-up");
  }
  sits_out_until_ = held_.round + rounds;
  log_(severity::warning, "round " + std::to_string(held_.round + 1) + ": " + why.where + " is left out: " + why.message +
                              "; it takes the shared state over and trains again after " + std::to_string(rounds) +
                              (rounds == 1 ? " round" : " rounds"));
  return restore();
}

CAUSEWAY_INLINE std::vector<std::uint64_t> member::draw(std::uint64_t skipped, std::uint64_t count) {
  if (held_.round < sits_out_until_) return {};
  return asked([&] { return samples_.draw(control_->ledger(), skipped, count); });
}

CAUSEWAY_INLINE void member::leave() {
  locked([&] { control_->leave(); });
}

CAUSEWAY_INLINE void member::close(bool stays) {
  const bool wanted = stays && std::uncaught_exceptions() == 0 && asked([&] { return control_->offers(); });
  const auto copy = wanted ? membership::kept_bytes::copy_of(image_) : nullptr;
  locked([&] {
    control_->stop_fetch();
    if (copy) control_->offer_from(copy);
    if (!copy) control_->withdraw();
  });
}

CAUSEWAY_DECL result<std::optional<round_entry>> member::entry(const situation& s) {
  in_vain_ = 0;
  excused_ = false;
  waits_.stop_waiting();
  attempt_.begin(s.current.at);
  passing("entered");
  return attempt_.enter(s, state_.parts.front().size());
}

CAUSEWAY_DECL std::shared_ptr<const membership::kept_bytes> member::copy_for_others() {
  bool wanted = false;
  locked([&] { wanted = control_->needs_copy(); });
  return wanted ? membership::kept_bytes::copy_of(image_) : nullptr;
}

CAUSEWAY_DECL result<void> member::report(const error& why) {
  if (!attempt_.may_try_again(why)) return why;
  // Whether the attempt was called off, or this peer was asked to stop: then it must not try again.
  if (why.code == errc::cancelled) CAUSEWAY_TRY(fabric_->block([] { return false; }, waits_.time_now()));
  if (!attempt_.at()) return {};
  log_(severity::info, "round " + std::to_string(held_.round + 1) + ": " + attempt_.failed(why));
  return {};
}

CAUSEWAY_DECL result<void> member::vote(std::uint64_t round) {
  const std::uint64_t root = hash_image();
  candidate_ = {round, root};
  passing("before_store");
  CAUSEWAY_TRY(store(candidate_.round, root));
  passing("stored");
  locked([&] {
    control_->offer(candidate_.round, image_);
    if (attempt_.at()) control_->voted(*attempt_.at(), candidate_.round, root);
  });
  attempt_.end();
  passing("voted");
  return {};
}

CAUSEWAY_DECL result<verdict> member::judge(bool voted) {
  if (std::exchange(lost_progress_, false)) return verdict::commit;
  for (;;) {
    const situation now = waits_.look();
    if (voted && now.newest.round >= candidate_.round && now.newest.state == candidate_.hash) return committed(now.newest);
    switch (now.is) {
      case situation::kind::adopt:
        CAUSEWAY_TRY(adopt(now, voted));
        voted = true;
        break;
      case situation::kind::fetch: {
        const std::uint64_t ours = now.newest.contribution_of(identity());
        const bool keep = !voted && ours == 0 && keeps_samples();
        CAUSEWAY_ASSIGN(const bool held, fetch(now, keep));
        if (!held) break;
        contributed_ = ours;
        return keep ? verdict::retry : verdict::commit;
      }
      case situation::kind::exchange:
        if (!voted) return verdict::retry;
        // The vote did not count, and what it was for is in memory: this peer cannot begin again, the others can.
        locked([&] { control_->failed(now.current.at, errc::wrong_parent, {identity()}); });
        CAUSEWAY_TRY(waits_.await_change(now));
        break;
      case situation::kind::failed:
      case situation::kind::left: return now.gone();
      case situation::kind::idle:
      case situation::kind::gathering:
        // The vote came too late for its attempt, and another was not for this state. What is in memory is nobody's now.
        if (voted) {
          locked([&] { control_->holds(candidate_.round, candidate_.hash); });
          if (waits_.look().changes == now.changes) CAUSEWAY_TRY(waits_.await_change(now));
          break;
        }
        [[fallthrough]];
      default:
        if (!voted && budget_used()) {  // nothing is left to be exchanged; others did what this peer had begun
          state_.adopted({});
          return verdict::commit;
        }
        if (!voted) {  // `enter` waits for the next attempt
          attempt_.nobody_was_quicker();
          return verdict::retry;
        }
        CAUSEWAY_TRY(waits_.await_change(now));
    }
  }
}

CAUSEWAY_DECL result<void> member::adopt(const situation& now, bool voted) {
  if (!voted || now.hash != candidate_.hash) {
    CAUSEWAY_ASSIGN(const bool held, fetch(now, false));
    if (!held) return {};
  }
  attempt_.begin(now.current.at);
  CAUSEWAY_TRY(vote(now.current.round));
  return waits_.await_change(now);
}

CAUSEWAY_DECL verdict member::committed(const membership::commit_record& record) {
  contributed_ = record.round == candidate_.round ? record.contribution_of(identity()) : uncommitted_;
  hold(record);
  locked([&] { control_->kept().end(); });
  (void)fabric_->block([&] { return control_->written(); }, no_deadline);  // a crash must not take back what is told
  passing("committed");
  return verdict::commit;
}

CAUSEWAY_DECL void member::hold(const membership::commit_record& record, const std::optional<membership::ledger>& samples) {
  waits_.stop_waiting();
  held_ = record;
  in_step_ = true;
  if (contributed_ > 0) unusable_ = 0;
  const auto mean = mean_of_ == record.round && !record.contributions.empty() ? std::exchange(mean_, nullptr) : nullptr;
  locked([&] {
    if (mean || record.contributions.empty()) control_->add_mean(record.round, mean);
    if (samples) {
      samples_.begin_round(*samples);
    } else if (control_->now_what().newest.round == held_.round) {
      samples_.begin_round(control_->ledger());
    } else {
      samples_.follow(held_);
    }
    control_->journal().held(held_);
    if (spare_ && spare_->round <= held_.round) control_->withdraw_spare(spare_->round);
    control_->offer(held_.round, image_);
  });
  if (spare_ && spare_->round <= held_.round) spare_.reset();
}

CAUSEWAY_DECL bool member::keeps_samples() {
  if (!asked([&] { return samples_.still_ours(control_->ledger(), uncommitted_); })) uncommitted_ = 0;
  return uncommitted_ > 0;
}

CAUSEWAY_DECL error member::lose_progress() {
  state_.adopted({});
  lost_progress_ = true;
  return fail(errc::cancelled, "round", "others were given the samples that this peer had");
}

CAUSEWAY_DECL result<verdict> member::restore() {
  const std::uint64_t root = hash_image();
  if (root == held_.state) {
    state_.adopted({});
    return verdict::commit;
  }
  locked([&] {
    control_->withdraw();
    control_->holds(held_.round, root);  // not the committed state: so this peer is told who has it
  });
  in_step_ = false;
  CAUSEWAY_TRY(take_newest());
  return verdict::commit;
}

CAUSEWAY_DECL result<void> member::take_newest() {
  for (;;) {
    CAUSEWAY_ASSIGN(const situation now,
                    waits_.await([](const situation& s) { return detail::member_waits::joined_in(s.is); }));
    if (now.is == situation::kind::failed || now.is == situation::kind::left) return now.gone();
    if (now.is == situation::kind::fetch) {
      CAUSEWAY_TRY(fetch(now, false));
    } else if (now.is == situation::kind::adopt) {
      CAUSEWAY_TRY(adopt(now, false));
    } else {
      hold(now.newest);
      return {};
    }
  }
}

CAUSEWAY_DECL std::uint64_t member::hash_image() {
  image_.touch();
  return image_.root(pool_);
}

CAUSEWAY_DECL result<void> member::store(std::uint64_t round, std::uint64_t root) {
  if (options_.store_every == 0 || round % options_.store_every != 0) return {};
  std::vector<std::byte> record;
  locked([&] { record = control_->record_of(round, root); });
  return store_.save(options_.protocol.run, round, root, state_.parts, record, state_.own);
}

CAUSEWAY_DECL std::optional<member_control::named_round> member::load_stored() {
  const auto committed = control_->remembered();
  const auto vote = control_->voted_for();
  if (vote) load_spare(*vote);
  if (!committed || !from_disk(committed->round, committed->hash, false)) return std::nullopt;
  state_.adopted({});
  return committed;
}

CAUSEWAY_DECL bool member::from_disk(std::uint64_t round, std::uint64_t hash, bool keep) {
  const auto own = keep ? std::span<const std::span<std::byte>>{} : std::span<const std::span<std::byte>>{state_.own};
  const auto loaded = store_.load(round, hash, state_.parts, own);
  if (loaded) return hash_image() == hash;
  if (loaded.error().code == errc::corrupt)
    log_(severity::warning, "passing over a stored round: " + loaded.error().text());
  return false;
}

CAUSEWAY_DECL void member::load_spare(const member_control::named_round& vote) {
  spare_ = spare_round::load(store_, vote.round, vote.hash, state_.parts, pool_);
  if (spare_) locked([&] { control_->offer_spare(spare_->round, spare_->image); });
}

CAUSEWAY_DECL result<bool> member::fetch(const situation& asked, bool keep) {
  const bool candidate = asked.is == situation::kind::adopt;
  const bool late = !candidate && in_vain_++ >= quick_tries;
  if (late && !follows()) CAUSEWAY_TRY(fetch_.wait_for_time(in_vain_));
  const situation now = waits_.look();
  if (now.is != asked.is || (candidate && now.hash != asked.hash)) return false;
  const std::uint64_t round = candidate ? now.current.round : now.newest.round;
  std::optional<membership::ledger> samples;
  locked([&] {
    if (control_->now_what().newest.round == now.newest.round) samples = control_->ledger();
  });
  if (!samples) return false;
  if (hash_image() != now.hash) {
    if (!candidate && follows()) {
      CAUSEWAY_TRY(follow(keep, late));
      return held_.round == waits_.look().newest.round;
    }
    locked([&] {
      control_->forget_means();
      control_->withdraw();
    });
    const std::vector<float> previous = keep ? shared_parameters() : std::vector<float>{};
    if (!from_disk(round, now.hash, keep)) {
      passing("fetching");
      CAUSEWAY_ASSIGN(const bool whole, fetch_.receive(round, now.hash, now, !excused_));
      if (!whole) {
        excuse();
        if (in_step_) locked([&] { control_->offer(held_.round, image_); });  // it was not touched
        return false;
      }
      passing("fetched");
      CAUSEWAY_TRY(fetch_.put());
    }
    state_.adopted(previous);
  }
  if (candidate) return true;
  if (!keep) uncommitted_ = 0;
  CAUSEWAY_TRY(store(round, now.hash));
  locked([&] { control_->holds(round, now.hash); });
  hold(now.newest, samples);
  return waits_.look().is != situation::kind::fetch;  // or there are newer rounds by now
}

CAUSEWAY_DECL void member::excuse() {
  if (!std::exchange(excused_, true) && fetch_.little_came()) in_vain_ = 0;
}

CAUSEWAY_DECL bool member::follows() const {
  bool can = false;
  locked([&] { can = state_.replay && control_->kept().kept() && control_->kept().base().round <= held_.round; });
  return can && in_step_;
}

CAUSEWAY_DECL result<void> member::follow(bool keep, bool late) {
  const std::vector<float> previous = keep ? shared_parameters() : std::vector<float>{};
  if (!keep) uncommitted_ = 0;
  locked([&] { control_->withdraw(); });
  std::uint64_t at = held_.round;
  in_step_ = false;
  for (;;) {
    CAUSEWAY_ASSIGN(const bool done, fetch_.replay(at + 1, late));
    if (!done) break;
    ++at;
    const situation now = waits_.look();
    if (now.is != situation::kind::fetch || now.newest.round != at) continue;
    in_step_ = hash_image() == now.hash;
    if (!in_step_) break;
    state_.adopted(previous);
    CAUSEWAY_TRY(store(at, now.hash));
    locked([&] { control_->holds(at, now.hash); });
    hold(now.newest);
    return {};
  }
  state_.adopted(previous);
  locked([&] { control_->kept().end(); });
  return {};
}

CAUSEWAY_DECL std::vector<float> member::shared_parameters() const {
  const auto first = state_.parts.front();
  std::vector<float> values(first.size() / sizeof(float));
  std::copy(first.begin(), first.end(), std::as_writable_bytes(std::span{values}).begin());
  return values;
}

CAUSEWAY_DECL void member::passing(std::string_view point) const {
  if (options_.passing) options_.passing(point);
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_IPP
