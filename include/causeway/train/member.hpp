// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_HPP
#define CAUSEWAY_TRAIN_MEMBER_HPP

// A peer of a run whose peers come and go: brings the membership's decisions, the transfer of state and the disk together
// with the trainer's thread. The decisions themselves are in membership/protocol.hpp; this is the part that waits.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/protocol.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/train/elastic_group.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/spare_round.hpp>
#include <causeway/train/view_transport.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI {

/// Models what training_context asks of a group, over any fabric. One per process and run. Made by `make`, before the
/// trainer; it must outlive the trainer's use of it. Threading: elastic_group's members from the trainer's thread;
/// `describe` and `rejected` from any.
///
/// Memory: one staging copy of the shared state while state is fetched. Disk: the shared state of two rounds, and a record
/// of a few hundred bytes.
class member final : public elastic_group {
 public:
  using situation = membership::situation;

  /// `fabric` must have the identity that `member_identity` gave for this storage.
  static result<std::shared_ptr<member>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                              member_options options, log_sink log = {}) {
    CAUSEWAY_ASSIGN(auto control, member_control::make(fabric, storage, options, log));
    return std::shared_ptr<member>{
        new member{std::move(fabric), std::move(storage), std::move(options), std::move(log), std::move(control)}};
  }

  ~member() override { control_->detach(); }

  [[nodiscard]] std::uint64_t identity() const override { return fabric_->id(); }
  [[nodiscard]] std::uint64_t round() const override { return held_.round; }
  [[nodiscard]] std::uint64_t parent() const override { return held_.chain(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return held_.state; }
  [[nodiscard]] std::uint64_t contributed() const override { return contributed_; }

  result<void> open(shared_state state, thread_pool& pool) override {
    state_ = std::move(state);
    pool_ = &pool;
    for (const auto part : state_.parts) image_.add(part);
    const auto stored = load_stored();
    const std::uint64_t root = hash_image();
    control_->attach();
    locked([&] { control_->begin(stored, root); });
    for (;;) {
      CAUSEWAY_ASSIGN(const situation now, await([](const situation& s) { return settled_in(s.is); }));
      if (now.is == situation::kind::failed || now.is == situation::kind::left) return now.gone();
      if (now.is == situation::kind::fetch) {
        CAUSEWAY_TRY(fetch(now, false));
      } else if (now.is == situation::kind::adopt) {
        CAUSEWAY_TRY(adopt(now, false));
      } else {
        hold(now.newest);
        inside_ = true;
        return {};
      }
    }
  }

  result<round_entry> enter(std::uint64_t samples) override {
    uncommitted_ = samples;
    for (;;) {
      situation now = look();
      if (now.is == situation::kind::idle) {
        if (now.newest.round > held_.round) hold(now.newest);  // committed without us, with the state that we hold
        if (budget_used()) return fail(errc::cancelled, "round", "every sample of the run is in a commit");
        passing("before_ready");
        locked([&] {
          control_->record_trained(held_, drawn_, uncommitted_);
          control_->ready(held_.round + 1, held_.chain(), uncommitted_);
        });
        now = look();
      }
      switch (now.is) {
        case situation::kind::exchange: {
          CAUSEWAY_ASSIGN(const auto entered, entry(now));
          if (entered) return *entered;
          break;
        }
        case situation::kind::adopt: return fail(errc::cancelled, "round", "others have finished it; taking it over");
        case situation::kind::fetch: {
          CAUSEWAY_ASSIGN(const bool held, fetch(now, keeps_progress()));
          if (held && options_.enters_afresh) return fail(errc::cancelled, "round", "others have finished it");
          break;
        }
        case situation::kind::failed:
        case situation::kind::left: return now.gone();
        default: {
          CAUSEWAY_ASSIGN(const bool changed, await_change_or_call(now));
          if (!changed) return fail(errc::cancelled, "round", "there is something to do first");
        }
      }
    }
  }

  [[nodiscard]] bool exchange_waits() const override { return look().is == situation::kind::exchange; }

  result<void> exchanged() override {
    passing("exchanged");
    exchange_times_.observe(fabric_now() - entered_at_);
    bool in_time = false;
    locked([&] {
      in_time = control_->completed(view_.at);
      if (!in_time) return;
      control_->record_updates(view_);
      control_->withdraw();
    });
    if (!in_time) return fail(errc::cancelled, "round", "the attempt was called off");
    return {};
  }

  result<verdict> settle(const result<void>& outcome, bool candidate) override {
    contributed_ = 0;
    overdue_.reset();
    if (outcome && candidate) {
      CAUSEWAY_TRY(vote());
    } else if (!outcome) {
      CAUSEWAY_TRY(report(outcome.error()));
    }
    return judge(outcome.has_value());
  }

  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    if (drawn_.size() > skipped) drawn_.erase(drawn_.begin(), drawn_.end() - static_cast<std::ptrdiff_t>(skipped));
    auto numbers = samples_.take(identity(), skipped, count);
    drawn_.insert(drawn_.end(), numbers.begin(), numbers.end());
    return numbers;
  }

  [[nodiscard]] bool budget_used() const override { return samples_.complete(); }

  /// Tells the others that this peer goes, so that they need not find out.
  void leave() override {
    locked([&] { control_->leave(); });
  }

  /// Whom this peer waits for, since when, and what happens next; one line each. From any thread.
  [[nodiscard]] std::string describe() const {
    std::string text;
    locked([&] { text = control_->describe(); });
    return text + fabric_->describe_waits();
  }

 private:
  member(std::shared_ptr<net::fabric> fabric, io::any_storage storage, member_options options, log_sink log,
         std::unique_ptr<member_control> control)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        log_{std::move(log)},
        control_{std::move(control)},
        store_{std::move(storage), options_.folder + "/rounds"},
        say_at_{options_.say_after},
        exchange_times_{options_.exchange} {}

  // ---- waiting ------------------------------------------------------------------------------------------------------

  template <class F>
  void locked(F&& what) const {
    fabric_->locked(std::forward<F>(what));
  }

  [[nodiscard]] time_point fabric_now() const {
    time_point now;
    locked([&] { now = fabric_->now(); });
    return now;
  }

  [[nodiscard]] situation look() const {
    situation now;
    locked([&] { now = control_->now_what(); });
    return now;
  }

  template <class Done>
  result<situation> await(Done&& done) {
    for (;;) {
      situation now;
      const auto over = [&] {
        if (!done(control_->now_what())) return false;
        now = control_->now_what();
        return true;
      };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over));
      if (happened) return now;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  // A wait that gets long says so, ever more rarely; also one of many short ones that come to nothing.
  template <class Over>
  result<bool> block_a_while(const Over& over, duration most = duration::max()) {
    const time_point begin = fabric_now();
    most = std::min(most, say_at_ - waited_);
    if (options_.patience > duration{0}) most = std::min(most, options_.patience);
    const auto outcome = fabric_->block(over, begin + most);
    waited_ += fabric_now() - begin;
    if (outcome && !*outcome && waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      say_waiting();
    }
    return outcome;
  }

  void say_waiting() const {
    const situation s = look();
    const std::string since = "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: ";
    if (!settled_in(s.is) || s.is == situation::kind::fetch) {
      log_(severity::warning, since + std::string{to_string(s.is)} + (s.why.empty() ? "" : ", " + s.why));
    }
    log_(severity::info, since + describe());
  }

  // Progress: the next wait is another one.
  void stop_waiting() {
    waited_ = duration{0};
    say_at_ = options_.say_after;
  }

  // A newcomer, or who comes back to a run that has done without it, could wait for ever for peers that have ended. Who was
  // in waits longer: what it has trained is worth something, if the others are only cut off.
  result<void> give_up_if_alone() const {
    std::optional<error> why;
    locked([&] { why = control_->alone_too_long(options_.patience * (inside_ ? 10 : 1)); });
    return why ? result<void>{*why} : result<void>{};
  }

  result<void> await_change(const situation& before) {
    CAUSEWAY_TRY(await([&](const situation& s) { return s.changes != before.changes; }));
    return {};
  }

  // False: something else is to be done first. Nobody wakes this peer for that, so it looks.
  result<bool> await_change_or_call(const situation& before) {
    if (!options_.called_away) {
      CAUSEWAY_TRY(await_change(before));
      return true;
    }
    for (;;) {
      if (options_.called_away()) return false;
      const auto over = [&] { return control_->now_what().changes != before.changes || options_.called_away(); };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over, look_around));
      if (happened) return look().changes != before.changes;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  static bool settled_in(situation::kind is) { return is != situation::kind::joining && is != situation::kind::no_quorum; }

  // ---- an exchange --------------------------------------------------------------------------------------------------

  // None if a member of the view is out of reach: that is reported, and the situation changes.
  result<std::optional<round_entry>> entry(const situation& s) {
    const membership::view& view = s.current;
    attempt_ = view.at;
    stop_waiting();
    entered_at_ = fabric_now();
    passing("entered");
    const net::peer_index rank = *view.rank_of(identity());
    round_entry e;
    e.round = view.round;
    e.parent = view.parent;
    e.attempt = view.at.wire();
    e.deadline = entered_at_ + exchange_times_.patience();
    e.empty = view.total() == 0;
    e.share = e.empty ? 0.0 : static_cast<double>(view.members[rank].samples) / static_cast<double>(view.total());
    suspects_ = std::make_shared<detail::suspicion>();
    view_ = view;
    CAUSEWAY_ASSIGN(const bool connected, connect(s));
    if (!connected) {
      attempt_.reset();
      return std::optional<round_entry>{};
    }
    std::vector<net::peer_index> links;
    locked([&] { links = e.empty ? std::vector<net::peer_index>{0} : control_->links_of(view); });
    transport_ = net::any_transport{detail::view_transport{
        net::link_transport{fabric_, std::move(links), e.empty ? 0 : rank, view.at.wire()}, suspects_}};
    e.transport = &transport_;
    return std::optional{e};
  }

  // Connects to those of the view whom this peer has no connection to. False: somebody is out of reach, and reported.
  result<bool> connect(const situation& s) {
    if (s.current.total() == 0) return true;  // nothing will be exchanged
    std::vector<net::peer_id> missing;
    locked([&] {
      control_->dial_missing(s.current);
      missing = control_->missing_of(s.current);
    });
    if (missing.empty()) return true;
    const time_point begin = fabric_now();
    const auto over = [&] {
      missing = control_->missing_of(s.current);
      return missing.empty() || control_->dialled_in_vain() || control_->now_what().current.at != s.current.at;
    };
    CAUSEWAY_ASSIGN(const bool in_time, fabric_->block(over, begin + connect_times_.patience()));
    if (missing.empty()) {
      connect_times_.observe(fabric_now() - begin);
      return true;
    }
    if (!in_time) connect_times_.overdue(fabric_now() - begin);
    locked([&] { control_->failed(s.current.at, errc::unreachable, missing); });
    return false;
  }

  result<void> report(const error& why) {
    if (!of_the_network(why.code)) return why;
    // Whether the attempt was called off, or this peer was asked to stop: then it must not try again.
    if (why.code == errc::cancelled) CAUSEWAY_TRY(fabric_->block([] { return false; }, fabric_now()));
    if (!attempt_) return {};
    std::vector<net::peer_id> suspects;
    for (const net::peer_index rank : suspects_->ranks) suspects.push_back(view_.members[rank].peer);
    if (why.code == errc::timeout) overdue_ = fabric_now() - entered_at_;
    locked([&] { control_->failed(*attempt_, why.code, suspects); });
    log_(severity::info, "round " + std::to_string(held_.round + 1) + ": the exchange failed (" + why.text() +
                             "); it will be run again with those who are left");
    attempt_.reset();
    return {};
  }

  // What another attempt, with other peers, may cure.
  static bool of_the_network(errc code) {
    return code == errc::peer_lost || code == errc::timeout || code == errc::cancelled || code == errc::wrong_parent ||
           code == errc::protocol || code == errc::too_large || code == errc::corrupt;
  }

  // ---- a verdict ----------------------------------------------------------------------------------------------------

  // The vote promises that this peer holds the round, also after a crash: so it is written first.
  result<void> vote() {
    const std::uint64_t root = hash_image();
    candidate_ = {held_.round + 1, root};
    passing("before_store");
    CAUSEWAY_TRY(store(candidate_.round, root));
    passing("stored");
    locked([&] {
      control_->offer(candidate_.round, image_);
      if (attempt_) control_->voted(*attempt_, candidate_.round, root);
    });
    attempt_.reset();
    passing("voted");
    return {};
  }

  result<verdict> judge(bool voted) {
    for (;;) {
      const situation now = look();
      if (voted && now.newest.round >= candidate_.round && now.newest.state == candidate_.hash)
        return committed(now.newest);
      switch (now.is) {
        case situation::kind::adopt:
          CAUSEWAY_TRY(adopt(now, voted));
          voted = true;
          break;
        case situation::kind::fetch: {
          const std::uint64_t ours = now.newest.contribution_of(identity());
          const bool keep = !voted && ours == 0 && keeps_progress();
          CAUSEWAY_ASSIGN(const bool held, fetch(now, keep));
          if (!held) break;
          contributed_ = ours;
          return keep ? verdict::retry : verdict::commit;
        }
        case situation::kind::exchange:
          if (!voted) return verdict::retry;
          // The vote did not count, and what it was for is in memory: this peer cannot begin again, the others can.
          locked([&] { control_->failed(now.current.at, errc::wrong_parent, {}); });
          CAUSEWAY_TRY(await_change(now));
          break;
        case situation::kind::failed:
        case situation::kind::left: return now.gone();
        case situation::kind::idle:
        case situation::kind::gathering:
          // The vote came too late for its attempt, and another was not for this state. What is in memory is nobody's now.
          if (voted) {
            locked([&] { control_->holds(candidate_.round, candidate_.hash); });
            if (look().changes == now.changes) CAUSEWAY_TRY(await_change(now));
            break;
          }
          [[fallthrough]];
        default:
          if (!voted && budget_used()) {  // nothing is left to be exchanged; others did what this peer had begun
            state_.adopted({});
            return verdict::commit;
          }
          if (!voted) {                                        // `enter` waits for the next attempt
            if (overdue_) exchange_times_.overdue(*overdue_);  // nobody was quicker: the deadline was too early
            overdue_.reset();
            return verdict::retry;
          }
          CAUSEWAY_TRY(await_change(now));
      }
    }
  }

  // Others hold a candidate that may have been chosen: this peer votes for it too, once it has it.
  result<void> adopt(const situation& now, bool voted) {
    if (!voted || now.hash != candidate_.hash) {
      CAUSEWAY_ASSIGN(const bool held, fetch(now, false));
      if (!held) return {};
    }
    attempt_ = now.current.at;
    CAUSEWAY_TRY(vote());
    return await_change(now);
  }

  verdict committed(const membership::commit_record& record) {
    contributed_ = record.round == candidate_.round ? record.contribution_of(identity()) : uncommitted_;
    hold(record);
    passing("committed");
    return verdict::commit;
  }

  void hold(const membership::commit_record& record) {
    stop_waiting();
    held_ = record;
    locked([&] {
      samples_ = control_->ledger();
      control_->record_held(held_);
      if (spare_ && spare_->round <= held_.round) control_->withdraw_spare(spare_->round);
      control_->offer(held_.round, image_);
    });
    if (spare_ && spare_->round <= held_.round) spare_.reset();
  }

  // Whether what was trained since the last commit may still be contributed: not if somebody else was given its samples.
  bool keeps_progress() {
    bool keeps = false;
    locked([&] {
      keeps = uncommitted_ > 0 &&
              membership::still_held(samples_, control_->ledger(), identity(), uncommitted_) == uncommitted_;
    });
    if (!keeps) uncommitted_ = 0;
    return keeps;
  }

  // ---- state --------------------------------------------------------------------------------------------------------

  std::uint64_t hash_image() {
    image_.touch();
    return image_.root(pool_);
  }

  result<void> store(std::uint64_t round, std::uint64_t root) {
    if (options_.store_every == 0 || round % options_.store_every != 0) return {};
    return store_.save(options_.protocol.run, round, root, state_.parts);
  }

  // What the last process left: the newest commit that it knew goes into memory, a vote after it is kept beside it.
  std::optional<member_control::named_round> load_stored() {
    const auto committed = control_->remembered();
    const auto vote = control_->voted_for();
    if (vote) load_spare(*vote);
    if (!committed || !from_disk(committed->round, committed->hash)) return std::nullopt;
    state_.adopted({});
    return committed;
  }

  bool from_disk(std::uint64_t round, std::uint64_t hash) {
    const auto loaded = store_.load(round, hash, state_.parts);
    if (loaded) return hash_image() == hash;
    if (loaded.error().code == errc::corrupt)
      log_(severity::warning, "passing over a stored round: " + loaded.error().text());
    return false;
  }

  void load_spare(const member_control::named_round& vote) {
    spare_ = spare_round::load(store_, vote.round, vote.hash, state_.parts, pool_);
    if (spare_) locked([&] { control_->offer_spare(spare_->round, spare_->image); });
  }

  /// Replaces the shared state by the one that `now` asks for. `keep`: local progress stays on top of it. False: the
  /// situation moved on before it was whole, and nothing was changed.
  result<bool> fetch(const situation& now, bool keep) {
    const bool candidate = now.is == situation::kind::adopt;
    const std::uint64_t round = candidate ? now.current.round : now.newest.round;
    if (hash_image() != now.hash) {
      locked([&] { control_->withdraw(); });
      std::vector<float> previous;
      if (keep) {
        const auto first = state_.parts.front();
        previous.resize(first.size() / sizeof(float));
        std::copy(first.begin(), first.end(), std::as_writable_bytes(std::span{previous}).begin());
      }
      if (!from_disk(round, now.hash)) {
        passing("fetching");
        CAUSEWAY_ASSIGN(const bool whole, receive(round, now.hash, now));
        if (!whole) {
          locked([&] { control_->offer(held_.round, image_); });  // it was not touched
          return false;
        }
        passing("fetched");
        CAUSEWAY_TRY(put_fetched());
      }
      state_.adopted(previous);
    }
    if (candidate) return true;
    CAUSEWAY_TRY(store(round, now.hash));
    locked([&] { control_->holds(round, now.hash); });
    hold(now.newest);
    return true;
  }

  // Blocks until the state is in the staging memory. A holder that lost it, or a newer commit, ends the wait.
  result<bool> receive(std::uint64_t round, std::uint64_t hash, const situation& asked) {
    using status = membership::fetcher::status;
    locked([&] { control_->start_fetch(round, hash, image_); });
    const auto outcome = await([&](const situation& s) {
      return control_->fetch().state() != status::running || s.hash != hash || s.is != asked.is;
    });
    std::optional<error> why;
    bool whole = false;
    locked([&] {
      whole = control_->fetch().state() == status::complete;
      if (control_->fetch().state() == status::failed) why = control_->fetch().failure();
      if (!whole) control_->stop_fetch();
    });
    if (!outcome) return outcome.error();
    if (whole || !why) return whole;
    if (why->code == errc::wrong_model) return *why;
    log_(severity::debug, "the state of round " + std::to_string(round) + " could not be fetched yet: " + why->text());
    CAUSEWAY_TRY(block_a_while([&] { return control_->now_what().changes != asked.changes; }, retry_fetch));
    CAUSEWAY_TRY(give_up_if_alone());
    return false;
  }

  result<void> put_fetched() {
    result<void> outcome;
    locked([&] { outcome = control_->fetch().commit(image_, pool_); });
    return outcome;
  }

  void passing(std::string_view point) const {
    if (options_.passing) options_.passing(point);
  }

  static constexpr duration look_around = std::chrono::milliseconds{100}, retry_fetch = std::chrono::milliseconds{500};

  struct candidate_state {
    std::uint64_t round = 0;
    std::uint64_t hash = 0;
  };

  std::shared_ptr<net::fabric> fabric_;
  member_options options_;
  log_sink log_;
  std::unique_ptr<member_control> control_;
  membership::round_store store_;
  membership::state_image image_;
  shared_state state_;
  thread_pool* pool_ = nullptr;
  std::unique_ptr<spare_round> spare_;
  membership::commit_record held_;
  candidate_state candidate_;
  membership::ledger samples_;     // as of held_
  std::uint64_t uncommitted_ = 0;  // trained on since the last commit
  std::uint64_t contributed_ = 0;
  std::vector<std::uint64_t> drawn_;  // sample numbers given out since the last commit, and perhaps some before it

  std::optional<membership::ballot> attempt_;  // entered, and neither voted nor failed yet
  membership::view view_;
  std::shared_ptr<detail::suspicion> suspects_;
  net::any_transport transport_;
  bool inside_ = false;  // has had a committed state
  duration waited_{0};   // since the last progress
  duration say_at_;      // of waited_
  time_point entered_at_;
  std::optional<duration> overdue_;  // how long the failed exchange was waited for
  net::arrival_statistics exchange_times_,
      connect_times_{{.floor = std::chrono::seconds{2}, .cap = std::chrono::seconds{10}}};
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MEMBER_HPP
