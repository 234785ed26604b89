// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_STATE_FETCH_HPP
#define CAUSEWAY_TRAIN_STATE_FETCH_HPP

// How a member's trainer gets the others' state: whole, from whoever holds it; then by doing again, from their means, the
// rounds that were committed meanwhile; and where rounds are too quick for both, by asking for one that lasts long enough.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/train/elastic_group.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/member_waits.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::detail {

/// For the trainer's thread. All that it is given must outlive it.
class state_fetch {
 public:
  using situation = membership::situation;

  static constexpr double slow_line = 1.25e6;  ///< bytes per second, where nothing was measured yet

  state_fetch(member_control& control, member_waits& waits, const member_options& options, log_sink log)
      : control_{&control}, waits_{&waits}, options_{&options}, log_{std::move(log)} {}

  /// What is fetched, and where it goes.
  void into(shared_state& state, membership::state_image& image, thread_pool* pool) {
    state_ = &state;
    image_ = &image;
    pool_ = pool;
  }

  // Rounds follow each other more quickly than this peer can fetch a state: it asks for one that lasts as long as that
  // takes, and sends for nothing meanwhile. Nobody who leads has time for it: it tries all the same, ever more rarely.
  result<void> wait_for_time(unsigned in_vain) {
    const duration needs = takes(image_->bytes());
    const time_point give_up = waits_->time_now() + (needs + heartbeats_to_wait * options_->protocol.heartbeat) * in_vain;
    bool over = false;
    while (!over && waits_->time_now() < give_up) {
      waits_->locked([&] { control_->ask_for_time(needs); });
      const auto answered = [&] { return control_->time_was_given() || control_->now_what().is != situation::kind::fetch; };
      CAUSEWAY_ASSIGN(over, waits_->block_a_while(answered, heartbeats_to_wait * options_->protocol.heartbeat));
      CAUSEWAY_TRY(waits_->give_up_if_alone());
    }
    return {};
  }

  static duration duration_of(double s) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>{std::min(s, 1e6)});
  }

  [[nodiscard]] duration takes(std::uint64_t bytes) const {
    return duration_of(static_cast<double>(bytes) / (bytes_per_s_ > 0 ? bytes_per_s_ : slow_line));
  }

  /// So many bytes came since `begin`: for what is asked of the leader.
  void note_rate(time_point begin, std::uint64_t bytes) {
    const double took = seconds(waits_->time_now() - begin);
    if (took > 0 && bytes > 0) bytes_per_s_ = static_cast<double>(bytes) / took;
  }

  // Blocks until the state is in the staging memory. A holder that lost it ends the wait, and a newer commit does where
  // nobody keeps the state.
  result<bool> receive(std::uint64_t round, std::uint64_t hash, const situation& asked) {
    const time_point begin = waits_->time_now();
    const bool keep = state_->replay && asked.is == situation::kind::fetch;
    waits_->locked([&] { control_->start_fetch(round, hash, *image_, keep); });
    const auto in_vain = [&](const situation& s) {
      const bool moved = s.hash != hash || s.is != asked.is;
      return moved && !(s.is == situation::kind::fetch && control_->kept().kept());
    };
    CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, in_vain));
    if (whole) return true;
    std::optional<error> why;
    waits_->locked([&] {
      if (control_->fetch().state() == membership::fetcher::status::failed) why = control_->fetch().failure();
      control_->stop_fetch();
      control_->kept().end();
    });
    if (!why) return false;
    if (why->code == errc::wrong_model) return *why;
    log_(severity::debug, "the state of round " + std::to_string(round) + " could not be fetched yet: " + why->text());
    CAUSEWAY_TRY(waits_->block_a_while([&] { return control_->now_what().changes != asked.changes; }, retry_fetch));
    CAUSEWAY_TRY(waits_->give_up_if_alone());
    return false;
  }

  /// Puts what `receive` has brought into the image.
  result<void> put() {
    result<void> outcome;
    waits_->locked([&] { outcome = control_->fetch().commit(*image_, pool_); });
    return outcome;
  }

  /// Does `round` again on top of the one before. `late`: this peer has come too late before, so it asks the leader for the
  /// time that it needs. False: nobody has what it takes.
  result<bool> replay(std::uint64_t round, bool late) {
    CAUSEWAY_ASSIGN(const auto root, root_of_mean(round));
    if (!root || *root == 0) return root.has_value();
    std::vector<float> mean(state_->parts.front().size() / sizeof(float));
    membership::state_image image;
    image.add(std::as_writable_bytes(std::span{mean}));
    (void)image.root(pool_);
    const time_point begin = waits_->time_now();
    waits_->locked([&] { control_->start_mean(round, *root, image); });
    CAUSEWAY_ASSIGN(const bool whole, finish_mean(round, begin, late));
    result<void> put;
    waits_->locked([&] {
      if (whole) put = control_->fetch().commit(image, pool_);
      control_->stop_fetch();
    });
    if (!whole || !put) return false;
    return state_->replay(mean).has_value();
  }

 private:
  // Whether all of it came, and not before `in_vain` said so.
  template <class InVain>
  result<bool> finish_fetch(time_point begin, const InVain& in_vain) {
    using status = membership::fetcher::status;
    const auto over = [&](const situation& s) { return control_->fetch().state() != status::running || in_vain(s); };
    const auto outcome = waits_->await(over);
    bool whole = false;
    membership::fetch_progress came;
    waits_->locked([&] {
      came = control_->fetch().progress();
      whole = control_->fetch().state() == status::complete;
      if (!outcome) control_->stop_fetch();
    });
    if (!outcome) return outcome.error();
    note_rate(begin, came.bytes_done);
    if (came.bytes_per_s > 0) bytes_per_s_ = came.bytes_per_s;
    return whole;
  }

  // Each commit while this mean comes adds another one to what is missing.
  result<bool> finish_mean(std::uint64_t round, time_point begin, bool late) {
    for (bool runs = true; runs;) {
      const std::uint64_t newest = waits_->look().newest.round;
      if (late) ask_for_time(newest - round + 1);
      CAUSEWAY_ASSIGN(const bool whole, finish_fetch(begin, [&](const auto& s) { return s.newest.round != newest; }));
      if (whole) return true;
      waits_->locked([&] { runs = control_->fetch().state() == membership::fetcher::status::running; });
    }
    return false;
  }

  // For what is missing of the means of so many rounds, the first of which comes now. Waits for no answer.
  void ask_for_time(std::uint64_t rounds) {
    waits_->locked([&] {
      const std::uint64_t here = control_->fetch().progress().bytes_done;
      control_->ask_for_time(takes(rounds * state_->parts.front().size() - here));
    });
  }

  // Asked for until the round is over: its mean is told with its commit, or a little later.
  result<std::optional<std::uint64_t>> root_of_mean(std::uint64_t round) {
    std::optional<std::uint64_t> root;
    for (int i = 0; i < tries_for_means && !root; ++i) {
      bool kept = false;
      waits_->locked([&] {
        root = control_->kept().root_of(round);
        kept = control_->kept().kept();
        if (!root && kept) control_->kept().ask(round);
      });
      if (root || !kept) break;
      const auto told = [&] { return control_->kept().root_of(round).has_value() || !control_->kept().kept(); };
      CAUSEWAY_TRY(waits_->block_a_while(told, look_around * (1 << i)));
    }
    return root;
  }

  static constexpr duration look_around = std::chrono::milliseconds{100}, retry_fetch = std::chrono::milliseconds{500};
  static constexpr int heartbeats_to_wait = 5;
  static constexpr int tries_for_means = 6;

  member_control* control_;
  member_waits* waits_;
  const member_options* options_;
  log_sink log_;
  shared_state* state_ = nullptr;
  membership::state_image* image_ = nullptr;
  thread_pool* pool_ = nullptr;
  double bytes_per_s_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_STATE_FETCH_HPP
