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
#include <causeway/train/member_control.hpp>
#include <causeway/train/member_waits.hpp>
#include <causeway/train/run_group.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// For the trainer's thread. All that it is given must outlive it.
class state_fetch {
 public:
  using situation = membership::situation;

  static constexpr double slow_line = 1.25e6;  ///< bytes per second, where nothing was measured yet

  CAUSEWAY_DECL state_fetch(member_control& control, member_waits& waits, const member_options& options, log_sink log);

  /// What is fetched, and where it goes.
  CAUSEWAY_DECL void into(shared_state& state, membership::state_image& image, thread_pool* pool);

  // Rounds follow each other more quickly than this peer can fetch a state: it asks for one that lasts as long as that
  // takes, and sends for nothing meanwhile. Nobody who leads has time for it: it tries all the same, ever more rarely.
  CAUSEWAY_DECL result<void> wait_for_time(unsigned in_vain);

  CAUSEWAY_DECL static duration duration_of(double s);

  CAUSEWAY_DECL [[nodiscard]] duration takes(std::uint64_t bytes) const;

  /// So many bytes came since `begin`: for what is asked of the leader.
  CAUSEWAY_DECL void note_rate(time_point begin, std::uint64_t bytes);

  // Blocks until the state is in the staging memory. A holder that lost it ends the wait, and a newer commit does where
  // nobody keeps the state; with `afresh` also while `little_came()`.
  CAUSEWAY_DECL result<bool> receive(std::uint64_t round, std::uint64_t hash, const situation& asked, bool afresh);

  /// What the last fetch brought is less than the mean of a round: the newer state costs no more than doing that round
  /// again.
  [[nodiscard]] bool little_came() const { return is_little(came_); }

  /// Puts what `receive` has brought into the image.
  CAUSEWAY_DECL result<void> put();

  /// Does `round` again on top of the one before. `late`: this peer has come too late before, so it asks the leader for the
  /// time that it needs. False: nobody has what it takes.
  CAUSEWAY_DECL result<bool> replay(std::uint64_t round, bool late);

 private:
  [[nodiscard]] bool is_little(std::uint64_t bytes) const { return bytes < state_->parts.front().size(); }

  // Tells the leader what is missing, each time that an eighth has come or a round was committed.
  template <class InVain>
  void ask_meanwhile(std::uint64_t round, const InVain& in_vain) {
    constexpr std::uint64_t parts = 8;
    std::uint64_t newest = round;
    std::uint64_t came = 0;
    for (std::uint64_t part = 1; part < parts;) {
      const time_point begin = waits_->time_now();
      const std::uint64_t before = came;
      bool runs = false;
      const auto next = [&](const situation& s) {
        const auto& p = control_->fetch().so_far();
        runs = control_->fetch().state() == membership::fetcher::status::running && !in_vain(s);
        came = p.bytes_done;
        return !runs || s.newest.round != newest || (p.bytes_total > 0 && parts * p.bytes_done >= part * p.bytes_total);
      };
      const auto now = waits_->await(next);
      if (!now || !runs) return;  // whoever waits on hears of an error again
      part += now->newest.round == newest ? 1U : 0U;
      newest = now->newest.round;
      note_rate(begin, came - before);
      ask_for_time(newest - round, false);
    }
  }

  // Whether all of it came, and not before `in_vain` said so.
  template <class InVain>
  result<bool> finish_fetch(time_point begin, const InVain& in_vain) {
    using status = membership::fetcher::status;
    const auto over = [&](const situation& s) { return control_->fetch().state() != status::running || in_vain(s); };
    const auto outcome = waits_->await(over);
    bool whole = false;
    double per_s = 0;
    waits_->locked([&] {
      came_ = control_->fetch().so_far().bytes_done;
      per_s = control_->fetch().so_far().bytes_per_s;
      whole = control_->fetch().state() == status::complete;
      if (!outcome) control_->stop_fetch();
    });
    if (!outcome) return outcome.error();
    note_rate(begin, came_);
    if (per_s > 0) bytes_per_s_ = per_s;
    return whole;
  }

  // Each commit while this mean comes adds another one to what is missing.
  CAUSEWAY_DECL result<bool> finish_mean(std::uint64_t round, time_point begin, bool late);

  // For what is missing of what comes now, and for so many means. Who is not `late` only if it takes no longer than a mean,
  // which missing the round would cost. Waits for no answer; less than a heartbeat is not asked for.
  CAUSEWAY_DECL void ask_for_time(std::uint64_t means, bool late);

  // Asked for until the round is over: its mean is told with its commit, or a little later.
  CAUSEWAY_DECL result<std::optional<std::uint64_t>> root_of_mean(std::uint64_t round);

  static constexpr duration look_around = std::chrono::milliseconds{100};
  static constexpr duration retry_fetch = std::chrono::seconds{1};  // who says that it is gone is about to commit the next
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
  double most_per_s_ = 0;   ///< over a whole part: the peaks of the fetcher would make waits look less worth than they are
  std::uint64_t came_ = 0;  ///< bytes of the last fetch
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/state_fetch.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_STATE_FETCH_HPP
