// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_CONTRIBUTION_HPP
#define CAUSEWAY_TRAIN_CONTRIBUTION_HPP

// Which of the samples that a peer has trained on its next exchange is for.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// Samples since the last committed contribution. A regular value.
class contribution {
 public:
  void add(std::uint64_t samples) noexcept {
    const std::uint64_t own = own_ ? *own_ : samples;
    own_.reset();
    samples_ += own;
    trained_ += own;
  }
  /// More, for an exchange that has been tried already: what it is to bring has changed.
  void add_late(std::uint64_t samples) noexcept {
    add(samples);
    late_ = true;
  }
  [[nodiscard]] bool has_late() noexcept { return std::exchange(late_, false); }  ///< says so once
  /// Of those that are added next this peer trained so many; others have the rest.
  void takes_part(std::uint64_t samples) noexcept { own_ = samples; }
  /// What is trained from now on is for the exchange after the next one; until `open`, or until it is closed again.
  void close() noexcept { closed_at_ = trained_; }
  void open() noexcept { closed_at_.reset(); }

  [[nodiscard]] std::uint64_t all() const noexcept { return samples_; }
  [[nodiscard]] std::uint64_t ever() const noexcept { return trained_; }  ///< whatever became of them
  /// Of them, those after the first `used`, which becomes how many there are now.
  [[nodiscard]] std::uint64_t after(std::uint64_t& used) const noexcept { return trained_ - std::exchange(used, trained_); }
  /// Of them, the last ones, which are for the exchange after the next one.
  [[nodiscard]] std::uint64_t later() const noexcept { return closed_at_ ? std::min(samples_, trained_ - *closed_at_) : 0; }
  void committed(std::uint64_t samples) noexcept { samples_ -= std::min(samples_, samples); }
  void give_up() noexcept { samples_ = 0; }

  /// Samples are handed out for the next step: what follows is computing, what came before it was waiting.
  void drawn_at(time_point now) noexcept { drawn_at_ = now; }
  [[nodiscard]] time_point drawn_at() const noexcept { return drawn_at_; }

  /// There is nothing to train from yet: this peer draws no samples until `resume`, or until so many rounds have `passed`
  /// that nobody seems to have anything better.
  void pause() noexcept {
    if (!std::exchange(paused_, true)) passed_ = 0;
  }
  void resume() noexcept { paused_ = false; }
  void passed() noexcept { ++passed_; }
  /// A round is so many samples of all peers together, or of what else they count: see `gathered`.
  /// `moves`: parameters do meanwhile. `by_pace`: of pipelines, who come when the quickest has its part.
  void gather(std::uint64_t round_samples, bool moves = false, bool by_pace = false) noexcept {
    round_samples_ = round_samples;
    moves_ = moves;
    by_pace_ = by_pace;
  }
  /// A round ends when a peer has trained so long, and all together have made so many steps.
  void gather_by_clock(std::uint64_t round_steps, double round_seconds) noexcept {
    gather(round_steps, true, true);
    round_seconds_ = round_seconds;
  }
  /// What this peer has of that, where these are not its samples.
  void gathered(std::uint64_t count) noexcept { gathered_ = count; }
  [[nodiscard]] std::uint64_t gathered() const noexcept { return gathered_.value_or(samples_); }
  /// Batches are divided among pipelines, anew in each round: a row counts by the samples behind it, which may be of
  /// several rounds, not by this peer's part in the one under way.
  void divide_batches() noexcept { divides_ = true; }
  [[nodiscard]] bool divides_batches() const noexcept { return divides_; }
  [[nodiscard]] std::uint64_t round_samples() const noexcept { return round_samples_; }
  [[nodiscard]] bool gathers_gradients() const noexcept { return round_samples_ > 0 && !moves_; }
  [[nodiscard]] bool by_pace() const noexcept { return by_pace_; }
  [[nodiscard]] const std::optional<double>& round_seconds() const noexcept { return round_seconds_; }

  [[nodiscard]] bool paused() const noexcept { return paused_ && passed_ < most_passed; }

 private:
  static constexpr std::uint32_t most_passed = 8;

  std::uint64_t samples_ = 0;
  std::uint64_t round_samples_ = 0;
  bool moves_ = false, by_pace_ = false, divides_ = false;
  std::optional<double> round_seconds_;
  std::uint64_t trained_ = 0;  ///< ever
  std::optional<std::uint64_t> closed_at_;
  std::optional<std::uint64_t> own_;
  std::optional<std::uint64_t> gathered_;
  bool late_ = false;
  bool paused_ = false;
  std::uint32_t passed_ = 0;  ///< rounds
  time_point drawn_at_{};
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_CONTRIBUTION_HPP
