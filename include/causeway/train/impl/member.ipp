// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_IPP

#include <causeway/train/member.hpp>

#include <exception>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_LAZY basic_member<Whole>::basic_member(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                                member_options options, log_sink log,
                                                std::unique_ptr<member_control> control)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      log_{std::move(log)},
      control_{std::move(control)},
      waits_{*fabric_, *control_, options_, log_},
      fetch_{*control_, waits_, options_, log_},
      held_{*control_, waits_, options_, log_, std::move(storage), fabric_->id()},
      attempt_{fabric_, *control_, options_.exchange} {}

CAUSEWAY_LAZY result<std::shared_ptr<member>> basic_member<Whole>::make(std::shared_ptr<net::fabric> fabric,
                                                                        io::any_storage storage, member_options options,
                                                                        log_sink log) {
  CAUSEWAY_ASSIGN(auto control, member_control::make(fabric, storage, options, log));
  return std::shared_ptr<member>{
      new member{std::move(fabric), std::move(storage), std::move(options), std::move(log), std::move(control)}};
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::open(shared_state state, thread_pool& pool) {
  held_.begin(std::move(state), pool);
  fetch_.into(held_.state(), held_.image(), held_.pool());
  const auto stored = held_.load_stored();
  const std::uint64_t root = held_.hash();
  control_->attach();
  locked([&] { control_->gather(held_.state().round_samples); });
  locked([&] { control_->begin(stored, root); });
  CAUSEWAY_TRY(take_newest());
  waits_.note_inside();
  return {};
}

CAUSEWAY_LAZY result<round_entry> basic_member<Whole>::enter(std::uint64_t samples, std::uint64_t later) {
  uncommitted_ = samples;
  for (;;) {
    situation now = waits_.look();
    if (now.is == situation::kind::idle) {
      if (now.newest.round > held_.round()) {  // committed without us, with the state that we hold
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

CAUSEWAY_LAZY auto basic_member<Whole>::say_ready(std::uint64_t later) -> situation {
  passing("before_ready");
  situation now;
  locked([&] {
    const auto drawn = held_.samples().drawn();
    control_->journal().trained(held_.record(), drawn.first(drawn.size() - std::min<std::size_t>(drawn.size(), later)),
                                uncommitted_);
    control_->ready(held_.round() + 1, held_.record().chain(), uncommitted_);
    now = control_->now_what();  // with the same lock: an attempt may begin and be called off before the next
  });
  return now;
}

CAUSEWAY_LAZY bool basic_member<Whole>::stand_by(std::uint64_t samples, std::uint64_t later) {
  uncommitted_ = samples;
  situation now = waits_.look();
  if (now.is == situation::kind::idle && now.newest.round == held_.round() && !budget_used()) now = say_ready(later);
  return now.is != situation::kind::gathering;
}

CAUSEWAY_LAZY bool basic_member<Whole>::announce(std::uint64_t samples, std::uint64_t gathered) {
  uncommitted_ = samples;
  const situation now = waits_.look();
  if (now.is == situation::kind::joining || now.is == situation::kind::no_quorum) return false;
  if (now.is != situation::kind::idle) return true;
  if (now.newest.round > held_.round()) {  // committed with the state that we hold
    if (!keeps_samples()) return true;     // which `enter` says
    hold(now.newest);
  }
  locked([&] { control_->announce(held_.round() + 1, held_.record().chain(), gathered); });
  return waits_.look().enough;
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::exchanged(std::span<const float> mean) {
  passing("exchanged");
  fetch_.note_rate(attempt_.entered_at(), attempt_.exchanged());
  const auto copy = held_.copy_for_others();
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
  if (!mean.empty()) held_.keep_mean(mean, attempt_.view().round);
  return {};
}

CAUSEWAY_LAZY result<verdict> basic_member<Whole>::decide(const result<void>& outcome, bool candidate) {
  contributed_ = 0;
  attempt_.forget_overdue();
  if (!outcome) locked([&] { control_->exchanging(false); });
  if (outcome && candidate) {
    CAUSEWAY_TRY(vote(held_.round() + 1));
  } else if (!outcome) {
    CAUSEWAY_TRY(report(outcome.error()));
  }
  return judge(outcome.has_value());
}

CAUSEWAY_LAZY result<verdict> basic_member<Whole>::sit_out(const error& why) {
  contributed_ = uncommitted_ = 0;
  attempt_.forget_overdue();
  locked([&] {
    control_->exchanging(false);
    control_->unusable(attempt_.at().value_or(membership::ballot{}));
  });
  attempt_.end();
  CAUSEWAY_TRY(unusable_.add(why, held_.round(), log_));
  return restore();
}

CAUSEWAY_LAZY void basic_member<Whole>::close(bool stays) {
  const bool wanted = stays && std::uncaught_exceptions() == 0 && asked([&] { return control_->offers(); });
  const auto copy = wanted ? membership::kept_bytes::copy_of(held_.image()) : nullptr;
  locked([&] {
    control_->stop_fetch();
    if (copy) control_->offer_from(copy);
    if (!copy) control_->withdraw();
  });
}

CAUSEWAY_LAZY result<std::optional<round_entry>> basic_member<Whole>::entry(const situation& s) {
  in_vain_ = 0;
  excused_ = false;
  waits_.stop_waiting();
  attempt_.begin(s.current.at);
  passing("entered");
  return attempt_.enter(s, held_.state().parts.front().size());
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::report(const error& why) {
  if (!attempt_.may_try_again(why)) return why;
  // Whether the attempt was called off, or this peer was asked to stop: then it must not try again.
  if (why.code == errc::cancelled) CAUSEWAY_TRY(fabric_->block([] { return false; }, waits_.time_now()));
  if (!attempt_.at()) return {};
  log_(severity::info, "round " + std::to_string(held_.round() + 1) + ": " + attempt_.failed(why));
  return {};
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::vote(std::uint64_t round) {
  const std::uint64_t root = held_.hash();
  candidate_ = {round, root};
  passing("before_store");
  CAUSEWAY_TRY(held_.store(candidate_.round, root));
  passing("stored");
  locked([&] {
    control_->offer(candidate_.round, held_.image());
    if (attempt_.at()) control_->voted(*attempt_.at(), candidate_.round, root);
  });
  attempt_.end();
  passing("voted");
  return {};
}

CAUSEWAY_LAZY result<verdict> basic_member<Whole>::judge(bool voted) {
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
          held_.state().adopted({});
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

CAUSEWAY_LAZY result<void> basic_member<Whole>::adopt(const situation& now, bool voted) {
  if (!voted || now.hash != candidate_.hash) {
    CAUSEWAY_ASSIGN(const bool held, fetch(now, false));
    if (!held) return {};
  }
  attempt_.begin(now.current.at);
  CAUSEWAY_TRY(vote(now.current.round));
  return waits_.await_change(now);
}

CAUSEWAY_LAZY verdict basic_member<Whole>::committed(const membership::commit_record& record) {
  contributed_ = record.round == candidate_.round ? record.contribution_of(identity()) : uncommitted_;
  hold(record);
  locked([&] { control_->kept().end(); });
  (void)fabric_->block([&] { return control_->written(); }, no_deadline);  // a crash must not take back what is told
  passing("committed");
  return verdict::commit;
}

CAUSEWAY_LAZY void basic_member<Whole>::hold(const membership::commit_record& record,
                                             const std::optional<membership::ledger>& samples) {
  waits_.stop_waiting();
  in_step_ = true;
  if (contributed_ > 0) unusable_.end();
  held_.hold(record, samples);
}

CAUSEWAY_LAZY bool basic_member<Whole>::keeps_samples() {
  if (!asked([&] { return held_.samples().still_ours(control_->ledger(), uncommitted_); })) uncommitted_ = 0;
  return uncommitted_ > 0;
}

CAUSEWAY_LAZY error basic_member<Whole>::lose_progress() {
  held_.state().adopted({});
  lost_progress_ = true;
  return fail(errc::cancelled, "round", "others were given the samples that this peer had");
}

CAUSEWAY_LAZY result<verdict> basic_member<Whole>::restore() {
  const std::uint64_t root = held_.hash();
  if (root == held_.record().state) {
    held_.state().adopted({});
    return verdict::commit;
  }
  locked([&] {
    control_->withdraw();
    control_->holds(held_.round(), root);  // not the committed state: so this peer is told who has it
  });
  in_step_ = false;
  CAUSEWAY_TRY(take_newest());
  return verdict::commit;
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::take_newest() {
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

CAUSEWAY_LAZY result<bool> basic_member<Whole>::fetch(const situation& asked, bool keep) {
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
  if (held_.hash() != now.hash) {
    if (!candidate && follows()) {
      CAUSEWAY_TRY(follow(keep, late));
      return held_.round() == waits_.look().newest.round;
    }
    locked([&] {
      control_->forget_means();
      control_->withdraw();
    });
    const std::vector<float> previous = keep ? held_.parameters() : std::vector<float>{};
    if (!held_.from_disk(round, now.hash, keep)) {
      passing("fetching");
      CAUSEWAY_ASSIGN(const bool whole, fetch_.receive(round, now.hash, now, !excused_));
      if (!whole) {
        excuse();
        if (in_step_) locked([&] { control_->offer(held_.round(), held_.image()); });  // it was not touched
        return false;
      }
      passing("fetched");
      CAUSEWAY_TRY(fetch_.put());
    }
    held_.state().adopted(previous);
  }
  if (candidate) return true;
  if (!keep) uncommitted_ = 0;
  CAUSEWAY_TRY(held_.store(round, now.hash));
  locked([&] { control_->holds(round, now.hash); });
  hold(now.newest, samples);
  return waits_.look().is != situation::kind::fetch;  // or there are newer rounds by now
}

CAUSEWAY_LAZY bool basic_member<Whole>::follows() const {
  bool can = false;
  locked([&] { can = held_.state().replay && control_->kept().kept() && control_->kept().base().round <= held_.round(); });
  return can && in_step_;
}

CAUSEWAY_LAZY result<void> basic_member<Whole>::follow(bool keep, bool late) {
  const std::vector<float> previous = keep ? held_.parameters() : std::vector<float>{};
  if (!keep) uncommitted_ = 0;
  locked([&] { control_->withdraw(); });
  std::uint64_t at = held_.round();
  in_step_ = false;
  for (;;) {
    CAUSEWAY_ASSIGN(const bool done, fetch_.replay(at + 1, late));
    if (!done) break;
    ++at;
    const situation now = waits_.look();
    if (now.is != situation::kind::fetch || now.newest.round != at) continue;
    in_step_ = held_.hash() == now.hash;
    if (!in_step_) break;
    held_.state().adopted(previous);
    CAUSEWAY_TRY(held_.store(at, now.hash));
    locked([&] { control_->holds(at, now.hash); });
    hold(now.newest);
    return {};
  }
  held_.state().adopted(previous);
  locked([&] { control_->kept().end(); });
  return {};
}

#ifdef CAUSEWAY_COMPILED
template class basic_member<void>;
#endif

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_IPP
