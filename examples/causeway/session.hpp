// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SESSION_HPP
#define CAUSEWAY_EXAMPLES_SESSION_HPP

// One peer's training run from the first step, or the last checkpoint, to the end, a signal or an error.

#include <causeway/core/result.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/train/observer.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics.hpp"
#include "report.hpp"
#include "routed_documents.hpp"
#include "session_input.hpp"
#include "trainer_handle.hpp"

namespace app {

class session {
 public:
  session(trainer_handle& trainer, session_input& input, pace moves = pace::together)
      : trainer_{trainer},
        in_{input},
        pace_{moves},
        self_{trainer.ctx().self()},
        peers_{trainer.ctx().peers()},
        checkpoints_{causeway::io::posix_storage{}, own_folder(), generations},
        shared_{causeway::io::posix_storage{}, shared_folder(input, self_), 1},
        line_{input.s.quiet} {}

  causeway::result<session_summary> run();

 private:
  // Peers may be one round apart when one of them dies, and those left save once more in the middle of a round: with two
  // generations they would have dropped the newest round that the dead one still holds.
  static constexpr unsigned generations = 3;

  trainer_handle::context& ctx() { return trainer_.ctx(); }
  [[nodiscard]] std::string own_folder() const { return in_.folder + "/peer-" + std::to_string(self_); }

  causeway::result<void> compare_texts();
  causeway::result<void> resume();
  causeway::result<void> prepare();
  causeway::result<void> route(bool again);
  [[nodiscard]] bool may_part() const;
  [[nodiscard]] bool restarts() const { return in_.s.fault.policy == "restart"; }
  causeway::result<void> train();
  causeway::result<void> loop();
  causeway::batch next_batch();
  causeway::result<void> after_step(const causeway::step_report& r);
  [[nodiscard]] bool ends_round(const causeway::step_report& r) const;
  [[nodiscard]] bool alike() const;
  causeway::result<void> save_if_due(const causeway::step_report& r);

  // Of rounds: about as many as that number of steps makes when all peers are equally quick.
  [[nodiscard]] std::uint64_t rounds_between_saves() const { return rounds_of(in_.s, in_.s.train.checkpoint_every); }

  causeway::result<void> validate(bool last);
  causeway::result<void> validate_alone();

  /// Sum and number of validation losses in tokens, sum and number of training losses in steps, tokens per second; bytes
  /// sent and seconds blocked, which are for who watches.
  using losses = std::array<double, 7>;

  causeway::result<losses> own_losses(causeway::index_range part);
  void hear(const std::vector<losses>& all);
  void note(const losses& total);
  round_news news(const causeway::step_report& r);
  void show(bool milestone);
  double every_step_bytes();
  causeway::result<session_summary> stopped(const causeway::result<void>& outcome);
  causeway::result<void> save();
  causeway::result<void> save_shared();
  session_summary summarize();

  /// Everybody's `mine`, by peer.
  template <class T, std::size_t N>
  causeway::result<std::vector<std::array<T, N>>> gather(const std::array<T, N>& mine, std::uint64_t number,
                                                         std::uint32_t beyond = 0);  ///< of the channel for figures

  static unsigned long long ull(std::uint64_t v) { return v; }

  trainer_handle& trainer_;
  session_input& in_;
  pace pace_;
  std::uint32_t self_;
  std::uint32_t peers_;
  std::uint32_t share_ = 0;  ///< of the batch; all of a pipeline's peers take the same
  std::uint32_t shares_ = 1;
  routed_documents::part of_batch_{0, 1};  ///< the same, but of the peers that draw from one shard
  causeway::io::checkpoint_directory<causeway::io::posix_storage> checkpoints_;
  causeway::io::checkpoint_directory<causeway::io::posix_storage> shared_;  ///< of the first peer or pipeline
  progress_line line_;
  std::optional<causeway::data::batcher> batches_;
  std::optional<causeway::data::validation_windows> held_out_;
  std::optional<routed_documents> routed_;  ///< where each peer has documents of its own
  metrics_file metrics_;
  session_summary summary_;
  causeway::time_point begin_;
  causeway::time_point mark_;
  causeway::time_point committed_at_;
  std::uint64_t first_step_ = 0;
  std::uint64_t begun_at_ = 0;  ///< the step of the peer that is behind the others: what is due follows from it on all
  std::uint64_t next_validation_ = 0;
  std::uint64_t next_save_ = 0;
  std::uint64_t next_route_ = 0;
  double loss_sum_ = 0;
  double last_loss_ = 0;
  double speed_ = 0;
  std::int64_t loss_count_ = 0;
  std::int64_t learned_ = 0;  ///< tokens of these steps
  bool learns_ = false;       ///< there was a loss
  std::int64_t tokens_ = 0;   ///< since committed_at_
  double blocked_ = 0;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SESSION_HPP
