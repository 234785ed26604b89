// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP

// One peer's part in a run whose peers come and go, from joining to the end of the run's samples, a signal or an error. It
// is the same code in a process of its own and in a simulated one; what differs is in elastic_place.hpp. Nothing here waits
// for particular peers: whoever holds a committed round can validate it. Peers that hold stages have the
// same samples in a step and validate together; a step is their round, unless they step alone between exchanges.

#include <causeway/core/result.hpp>
#include <causeway/data/batcher.hpp>
#include <causeway/io/checkpoint.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "elastic_place.hpp"
#include "policies.hpp"
#include "routed_documents.hpp"
#include "session_input.hpp"
#include "trainer_handle.hpp"

namespace app {

class elastic_session {
 public:
  /// `fragments`: how many rounds it takes to exchange every parameter once.
  elastic_session(trainer_handle& trainer, session_input& input, elastic_place& place, std::uint64_t fragments)
      : trainer_{trainer},
        in_{input},
        place_{place},
        checkpoints_{place.storage, place.folder},
        per_round_{steps_of_round(input.s)},
        fragments_{fragments} {}

  causeway::result<session_summary> run();

 private:
  trainer_handle::context& ctx() { return trainer_.ctx(); }
  [[nodiscard]] bool has_stages() const { return trainer_.has_stages(); }

  causeway::result<void> prepare();
  causeway::result<void> train();
  causeway::result<bool> step();
  void say_if_it_went_on();
  causeway::result<std::vector<std::uint64_t>> draw();

  // Of stages: so many global batches.
  [[nodiscard]] std::uint64_t round() { return has_stages() ? ctx().step() / per_round_ : ctx().round(); }

  causeway::result<causeway::batch> batch_of(const std::vector<std::uint64_t>& numbers);
  causeway::result<void> follow_path();
  causeway::result<void> hand_over();
  causeway::result<void> after_round();
  round_news news();
  causeway::result<void> validate();
  causeway::result<void> validate_together(const causeway::index_range& all);
  causeway::result<void> save();
  void restore_inner_optimizer();
  causeway::result<session_summary> stopped();
  session_summary& summarize();

  trainer_handle& trainer_;
  session_input& in_;
  elastic_place& place_;
  causeway::io::checkpoint_directory<causeway::io::any_storage> checkpoints_;
  std::optional<causeway::data::batcher> batches_;
  std::optional<causeway::data::validation_windows> held_out_;
  std::optional<routed_documents> routed_;  ///< where each peer, or each pipeline, trains the documents of a path
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

causeway::result<session_summary> run_session(trainer_handle& trainer, session_input& in, elastic_place& place,
                                              std::uint64_t fragments = 1);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_SESSION_HPP
