// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP
#define CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP

// What a run has come to, and how good it is.

#include <causeway/core/result.hpp>
#include <causeway/data/batcher.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer_handle.hpp"

namespace app {

/// Has the shared parameters stand in for the live ones while it lives, where a policy has such.
class shared_in_place {
 public:
  explicit shared_in_place(trainer_handle& trainer) : ctx_{trainer.ctx()} {
    const auto shared = trainer.shared_parameters();
    const auto live = ctx_.parameters();
    if (shared.size() != live.size()) return;
    kept_.assign(live.begin(), live.end());
    put(shared);
  }
  shared_in_place(const shared_in_place&) = delete;
  shared_in_place& operator=(const shared_in_place&) = delete;
  ~shared_in_place() {
    if (!kept_.empty()) put(kept_);
  }

 private:
  void put(std::span<const float> values) {
    std::copy(values.begin(), values.end(), ctx_.parameters().begin());
    ctx_.parameters_changed();
  }

  trainer_handle::context& ctx_;
  std::vector<float> kept_;
};

/// Losses summed over tokens.
struct token_losses {
  double sum = 0;
  double tokens = 0;
};

/// The losses of `part` of the windows on the trainer's present parameters.
inline causeway::result<token_losses> evaluate_windows(trainer_handle& trainer, causeway::data::validation_windows& windows,
                                                       causeway::index_range part, std::int64_t at_once) {
  token_losses all;
  for (std::int64_t at = part.begin; at < part.end; at += at_once) {
    const causeway::batch b = windows.at(at, std::min(at_once, part.end - at));
    CAUSEWAY_ASSIGN(const double loss, trainer.evaluate(b));
    all.sum += loss * static_cast<double>(b.tokens());
    all.tokens += static_cast<double>(b.tokens());
  }
  return all;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP
